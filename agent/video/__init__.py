"""What is in a video stream, without decoding it: parameter sets, and what their changes mean for whoever decodes. Pure."""
