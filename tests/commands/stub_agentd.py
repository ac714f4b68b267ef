"""A control socket that answers by rote: a double of agentd as a process of its own. Run: stub_agentd.py SOCKET REPLIES.json.

REPLIES maps a verb to a list of replies, given one after the other, the last for ever: `{"result": …}`, `{"error", "code"}`, or
`{"raw": text}` for bytes that are no reply. The verb `snapshot` is looked up as `snapshot <probe>`.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path


def answer(request: dict[str, object], replies: dict[str, list[dict[str, object]]]) -> bytes:
    """Give the bytes for one request line."""
    verb = f"{request['verb']} {request['probe']}" if request["verb"] == "snapshot" else str(request["verb"])
    queue = replies.get(verb, [{"error": f"unknown verb {verb}", "code": 2}])
    reply = queue.pop(0) if len(queue) > 1 else queue[0]
    if "raw" in reply:
        return str(reply["raw"]).encode()
    return json.dumps({"ok": "result" in reply} | reply).encode() + b"\n"


def main() -> None:
    """Serve until killed; say `ready` on stdout."""
    replies = json.loads(Path(sys.argv[2]).read_text())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(sys.argv[1])
        listener.listen(8)
        print("ready", flush=True)
        while True:
            peer, _ = listener.accept()
            with peer, peer.makefile("rb") as lines:
                line = lines.readline()
                if line:
                    peer.sendall(answer(json.loads(line), replies))


if __name__ == "__main__":
    main()
