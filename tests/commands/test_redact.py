"""Nothing that the configuration calls a secret leaves in a bundle or in `config show`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.commands._redact import HIDDEN, configuration, is_secret, redacted, secrets, text
from agent.commands._toml import toml
from agent.model import Data

# Nothing that a URL or a shell would need to quote, nothing that a word of ours could contain by chance.
SECRETS = st.text("ABCDEFGHJKLMNPQRSTUVWXYZ0123456789!$", min_size=4, max_size=40)
# What goes into a URL unquoted, as people do: also with the separators of a URL in it.
SECRETS_OF = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789!$%~^()[]{}|,'\"+_"
PASSWORDS = st.text("ABCDEFGHJKLMNPQRSTUVWXYZ0123456789!$@:/", min_size=4, max_size=40)


@st.composite
def configurations(draw: st.DrawFn) -> tuple[Data, list[str]]:
    """Draw a configuration with secrets in every place that can hold one, and the secrets."""
    hidden = [draw(SECRETS) for _ in range(6)]
    password = draw(PASSWORDS)
    config: Data = {
        "mqtt": {"host": "broker", "username": hidden[0], "password": hidden[1]},
        "workload": [
            {
                "name": "detector",
                "env": {"API": hidden[2]},
                "command": ["/usr/bin/x", "--password", hidden[3], f"--token={hidden[4]}"],
            },
            {"name": "other", "probe": {"http": f"http://h/ready?access_token={hidden[5]}&x=1"}},
        ],
        "stream": [{"name": "camera-1", "url": f"rtsp://user:{password}@camera/live"}],
    }
    return config, [*hidden, password]


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) else []


@given(configurations())
def test_no_configured_secret_appears_in_the_configuration_shown(drawn: tuple[Data, list[str]]) -> None:
    """Pins the property of `config show` and of the bundle's config.json."""
    config, hidden = drawn
    shown = json.dumps(redacted(config, secrets(config)))
    assert [secret for secret in hidden if secret in shown] == []
    assert "camera/live" in shown
    assert "broker" in shown


@given(
    arguments=st.lists(st.text(SECRETS_OF, min_size=1, max_size=30).map(lambda text: f"{text}Q7"), min_size=1, max_size=5),
    before=st.sampled_from(["", "-p", "--key=", "Authorization: Bearer ", "X_Y=", "http://u:p@h/?", "http://h/a?b="]),
    env=st.text(SECRETS_OF, min_size=4),
    user=st.text(SECRETS_OF, min_size=4),
    query=st.lists(st.text(SECRETS_OF, min_size=4), min_size=1, max_size=3),
    key=st.sampled_from(["sid=", "", "a[b]="]),
)
def test_no_argument_env_value_user_info_or_query_value_is_shown(
    arguments: list[str], before: str, env: str, user: str, query: list[str], key: str
) -> None:
    """Pins the radical part: whatever they look like, and in both forms of `config show` (the bundle has the JSON)."""
    url = f"rtsp://{user}@camera/live?{'&'.join(key + value for value in query)}"
    config: Data = {
        "workload": [
            {"name": "w", "command": ["/usr/bin/prog", *(before + argument for argument in arguments)], "env": {"KEY": env}},
            {"name": "v", "command": ["/usr/bin/prog"], "probe": {"http": url.replace("rtsp", "http")}},
        ],
        "stream": [{"name": "c", "url": url}],
    }
    shown = configuration(config)
    for text_ in (json.dumps(shown, ensure_ascii=False), toml(shown)):
        assert [secret for secret in (*arguments, env, user, *query) if secret in text_] == []
        assert "/usr/bin/prog" in text_
        assert f"({len(arguments)} argument" in text_
        assert "KEY" in text_
        assert "@camera/live?" in text_


@given(configurations(), st.text(max_size=50), st.text(max_size=50))
def test_no_configured_secret_appears_in_other_texts(drawn: tuple[Data, list[str]], before: str, after: str) -> None:
    """Pins that a secret is also found where nothing around it gives it away: a log line, an event, a kernel message."""
    config, hidden = drawn
    known = secrets(config)
    for secret in hidden:
        assert secret not in text(f"{before} {secret} {after}", known)
        assert [found for found in _strings(redacted({"events": [{"data": {"comm": secret}}]}, known)) if secret in found] == []


@given(st.text(), st.frozensets(SECRETS, max_size=3))
def test_any_text_can_be_redacted(raw: str, known: frozenset[str]) -> None:
    """Pins that no text makes redaction fail, nor lets a known secret through, also where taking one out makes another."""
    shown = text(raw, known)
    assert all(secret not in shown for secret in known if secret not in HIDDEN)


@pytest.mark.parametrize(
    "line",
    [
        "password=hunter22",
        'PASSWORD: "hunter22"',
        "Authorization: hunter22",
        "Authorization: Bearer hunter22",
        "{'Authorization': 'Basic hunter22'}",
        "Cookie: sid=hunter22; b=c",
        "with bearer hunter22 as token",
        "exec x --key hunter22",
        "GET /live?sid=hunter22 HTTP/1.1",
        "connect http://h/?hunter22 failed",
        "connect rtsp://admin:hunter22@10.0.0.1/x failed",
        "connect rtsp://admin:p@ss/hunter22@10.0.0.1/x failed",
        "GET /?token=hunter22&x=1",
        "exec ffmpeg --api-key hunter22 -i x",
        "{'client_secret': 'hunter22'}",
        'api_key = "hunt\\"er hunter22"',
    ],
)
def test_what_looks_like_a_secret_is_hidden(line: str) -> None:
    """Pins the second net: shapes that give a secret away, wherever they stand."""
    assert "hunter22" not in text(line, frozenset())


@pytest.mark.parametrize(
    "line",
    [
        "tick_nohz_handler late by 12 ms",
        "usb 1-1: device passed the test",
        "bypass the compass at http://host/path",
        "net.core.netdev_budget = 300",
    ],
)
def test_ordinary_lines_stay_as_they_are(line: str) -> None:
    """Pins that redaction leaves a log useful."""
    assert text(line, frozenset()) == line


@pytest.mark.parametrize(
    ("key", "hidden"), [("password", True), ("password_file", False), ("env", True), ("key", False), ("keepalive_s", False)]
)
def test_keys_that_hold_secrets(key: str, hidden: bool) -> None:  # noqa: FBT001 - a table
    """Pins which keys are hidden whatever they hold: a path to a secret is none."""
    assert is_secret(key) is hidden


@pytest.mark.parametrize(
    "argument", ["-pPosSecret44", "KeySecret11", "--opt=Val-9", "X-Key: Abc77", "http://u:p4ss@h/?sid=SidSecret3"]
)
def test_arguments_are_searched_for_elsewhere(argument: str) -> None:
    """Pins that what a command was given is also found in logs and events: as a whole, and what hangs on an option."""
    known = secrets({"workload": [{"command": ["prog", argument, "-i", "scale", "/dev/video0", "25"]}]})
    for part in (argument, *(part for part in ("PosSecret44", "Abc77", "SidSecret3", "Val-9") if part in argument)):
        assert part not in text(f"it said {part} there", known)
    assert text("prog scale -i /dev/video0 25", known) == "prog scale -i /dev/video0 25"


def test_an_overlong_line_costs_no_time() -> None:
    """Pins the bound of a line made to be slow to search."""
    assert len(text("://" * 1_000_000, frozenset())) <= 4096
