"""What an Event of each kind carries in `data`: one file for each family, `KINDS` maps the dotted kind to its shape."""
