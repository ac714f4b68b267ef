"""One MQTT 5 connection on paho-mqtt, driven by our own select loop.

paho keeps nothing for us: every connection has a new client, which is handed no more than fits into the in-flight window, so
its queue stays empty and nothing depends on its memory. What it reports by callbacks is kept here as plain values
(`accepted`, `lost`, `acks`) and read by the loop. Foreign errors end here: they become a `Loss` (`tls.py`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from agent.telemetry.messages import Packet
from agent.telemetry.tls import Context, Loss, Tls, buffered, context, loss_by

SESSION_EXPIRY_S = 24 * 3600
WILL_DELAY_S = 15  # a flap shorter than this raises no alarm
CONNECT_S = 5.0  # for TCP and again for TLS
_MAX_PACKET = 268_435_460  # MQTT 5, 1.5.5: what the length field can say
PROTOCOL_ERROR = 0x82
_KEEPALIVE_TIMEOUT = 0x8D
_TRANSIENT = {0x88, 0x89}  # CONNACK: server unavailable, server busy
_IPPROTO_TCP, _TCP_NODELAY = 6, 1  # netinet/in.h, netinet/tcp.h


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is and how to be let in. The password never appears in a text."""

    host: str
    port: int = 1883
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = None
    keepalive_s: int = 60


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the broker granted at CONNACK."""

    receive_maximum: int
    maximum_packet: int
    keepalive_s: int


class _Socket(Protocol):
    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...


class Link:
    """One connection: `open`, then `pump` whenever its socket is ready, until `lost`."""

    def __init__(self, broker: Broker, client_id: str, will: Packet) -> None:
        self._broker = broker
        self._client_id = client_id
        self._will = will
        self._client: Client | None = None
        self._tls: Context | None = None
        self._words = _LastWords()
        self.accepted: Accepted | None = None
        self.lost: Loss | None = None
        self.acks: list[tuple[int, int]] = []

    def open(self) -> None:
        """Connect (blocks for at most `CONNECT_S` each for TCP and TLS) and send CONNECT; a failure is in `lost`."""
        try:
            self._client = client = self._make()
            properties = _blank(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = SESSION_EXPIRY_S
            client.connect(
                self._broker.host, self._broker.port, self._broker.keepalive_s, clean_start=False, properties=properties
            )
            if (sock := cast("_Socket | None", client.socket())) is None:
                self._end("the connection broke")
            else:
                sock.setsockopt(_IPPROTO_TCP, _TCP_NODELAY, 1)
        except (OSError, ValueError) as error:
            self.lost = loss_by(error)
            if self._tls is not None and self._tls.made is not None:
                self._tls.made.close()

    def fileno(self) -> int:
        """Give the socket to select on, -1 if there is none."""
        sock = self._client.socket() if self._client else None
        return sock.fileno() if sock else -1

    def wants_write(self) -> bool:
        """Whether bytes wait for the socket to take them."""
        return self._client is not None and self._client.want_write()

    def pump(self, *, readable: bool) -> None:
        """Read what came, write what waits, let paho ping when it is time."""
        client = self._client
        if client is None:
            return
        if readable:
            client.loop_read()
            while self.lost is None and buffered(client.socket()):
                client.loop_read()
        if client.want_write():
            client.loop_write()
        client.loop_misc()
        if client.socket() is None and self.lost is None:
            self._end("the connection broke")

    def publish(self, packet: Packet) -> int | None:
        """Send `packet` with QoS 1; gives its packet id, None if the connection is gone."""
        if self._client is None:
            return None
        info = self._client.publish(packet.topic, packet.payload, 1, packet.retain, _properties(packet, PacketTypes.PUBLISH))
        return info.mid if info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS else None

    def close(self, *, clean: bool = False) -> None:
        """End it. A clean end tells the broker that no will is due."""
        if self._client is None:
            return
        if clean:
            self._client.disconnect()
            self._client.loop_write()
        self._client.on_disconnect = None
        if (sock := self._client.socket()) is not None:
            sock.close()
        self._client = None

    def _make(self) -> Client:
        client = Client(CallbackAPIVersion.VERSION2, self._client_id, protocol=MQTTv5, reconnect_on_failure=False)
        client.connect_timeout = CONNECT_S
        if self._broker.username is not None:
            client.username_pw_set(self._broker.username, self._broker.password)
        if self._broker.tls is not None:
            self._tls = context(self._broker.tls)
            client.tls_set_context(self._tls)
        properties = _properties(self._will, PacketTypes.WILLMESSAGE)
        properties.WillDelayInterval = WILL_DELAY_S
        client.will_set(self._will.topic, self._will.payload, 1, self._will.retain, properties)
        client.enable_logger(self._words.logger)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        return client

    def _on_connect(
        self, client: Client, _data: Any, _flags: ConnectFlags, code: ReasonCode, granted: Properties | None
    ) -> None:
        if code.is_failure:
            state = "waiting" if code.value in _TRANSIENT else "refused"
            self.lost = Loss(state, f"the broker refuses the connection: {code}", code.value)
        elif getattr(granted, "MaximumQoS", 1) < 1:
            self.lost = Loss("refused", "the broker takes no QoS 1")
        else:
            self.accepted = Accepted(
                getattr(granted, "ReceiveMaximum", 65535), getattr(granted, "MaximumPacketSize", _MAX_PACKET), client.keepalive
            )

    def _on_disconnect(self, _client: Client, _data: Any, flags: DisconnectFlags, code: ReasonCode, _props: Any) -> None:
        if flags.is_disconnect_packet_from_server:
            self._end(f"the broker ends the connection: {code}", code.value)
        elif code.value == _KEEPALIVE_TIMEOUT:
            self._end("the broker is silent")
        else:
            # paho itself hangs up on what it cannot read, such as mosquitto's PUBACK with the reason code of a DISCONNECT.
            self._end("the connection broke", PROTOCOL_ERROR if code.value == PROTOCOL_ERROR else 0)

    def _on_publish(self, _client: Client, _data: Any, mid: int, code: ReasonCode, _props: Any) -> None:
        self.acks.append((mid, code.value))

    def _end(self, reason: str, code: int = 0) -> None:
        if self.lost is None:
            said = f" ({self._words.text})" if self._words.text else ""
            if self._tls is not None and self.accepted is None:
                # TLS 1.3: the broker judges our certificate after the handshake is over for us, and may just hang up.
                self.lost = Loss("refused", f"{reason}; does the broker accept the certificate of this gateway?{said}", code)
            else:
                self.lost = Loss("waiting", reason + said, code)


class _LastWords(logging.Handler):
    """Keeps paho's last error message; formats nothing below that level."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""
        self.logger = logging.Logger("mqtt", logging.ERROR)  # noqa: LOG001 - not part of the process-wide tree
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()[:200]


def packet_size(packet: Packet) -> int:
    """Give the bytes that `packet` has on the wire."""
    remaining = 2 + len(packet.topic.encode()) + 2 + len(_properties(packet, PacketTypes.PUBLISH).pack()) + len(packet.payload)
    return 1 + max(1, (remaining.bit_length() + 6) // 7) + remaining


def _blank(kind: int) -> Any:
    """Give empty properties (paho has no types for them)."""
    return cast("Any", Properties)(kind)


def _properties(packet: Packet, kind: int) -> Any:
    properties = _blank(kind)
    properties.PayloadFormatIndicator = 1
    properties.ContentType = "application/json"
    properties.UserProperty = list(packet.user)
    if packet.expiry_s is not None:
        properties.MessageExpiryInterval = packet.expiry_s
    return properties
