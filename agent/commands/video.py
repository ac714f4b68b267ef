"""video: what is in a video stream, and what decoding it gives (needs PyAV: pip install 'gatewarden[video]').

inspect reads a file without decoding it, and tells every parameter set and what its changes mean. decode goes on over every
change, with another decoder where one fails, and tells how long no good picture came. docs/video.md has the rest.
"""

from __future__ import annotations

from agent.commands._ways import Ways

EXAMPLES = """examples:
  agentctl video inspect camera.ts
  agentctl video inspect camera.ts --json | jq '.changes[] | select(.class == "format")'
  agentctl video decode camera.ts --adapt 1280x720:yuv420p --out y4m:camera.y4m
"""
WAYS = Ways(
    "_video_",
    {
        "inspect": "the parameter sets of a file and their changes",
        "decode": "decode a file or camera, over every change of its parameters",
    },
    EXAMPLES,
)
arguments = WAYS.arguments
run = WAYS.run
