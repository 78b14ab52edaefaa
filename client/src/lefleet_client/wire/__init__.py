"""The language of robots and policy servers: the one place that knows how bytes are laid out.

    errors         what is wrong with a name, a header, a body or an image
    limits         how large anything from the network may be
    version        schema versions, and how two sides agree on one
    keys           where in the key tree a message goes
    header         27 bytes that route and correlate a message
    tensor, image  arrays and pictures inside a body
    jpeg           JPEG to RGB and back
    together       several images at once
    jpeg_simplejpeg, jpeg_opencv  the libraries behind it
    base           what all messages have in common
    observation    what a robot sends
    chunk, event   what a server sends
    contract       what each column means
    session        opening, closing and resetting
    status         what a server says about itself
    bodies         messages to MessagePack and back

Bytes come from `transport` and from captures on disk, and go back there. Everything is checked
here, before memory is taken for it: what `bodies` returns is typed and complete. Imports msgspec,
numpy, and simplejpeg or OpenCV; neither zenoh, nor torch, nor lerobot. Every other folder may
import it.

Instants never cross machines. `client_mono_ns` means something on the robot that wrote it, and is
only echoed. Servers report durations.
"""

from lefleet_client.wire.bodies import (
    CHUNK,
    EVENT,
    OBSERVATION,
    RESET,
    RESET_REPLY,
    SESSION_REPLY,
    SESSION_REQUEST,
    STATUS,
    Body,
)
from lefleet_client.wire.chunk import ActionChunk
from lefleet_client.wire.contract import Contract
from lefleet_client.wire.errors import (
    BadBody,
    BadHeader,
    BadImage,
    BadKey,
    BadTensor,
    NoCommonVersion,
    WireError,
)
from lefleet_client.wire.event import (
    REPLACED,
    Draining,
    Event,
    Probed,
    RequestFailed,
    SessionClosed,
)
from lefleet_client.wire.header import Header, HeaderReader, MessageType
from lefleet_client.wire.image import (
    Image,
    decode_image,
    decode_images,
    encode_image,
    encode_images,
)
from lefleet_client.wire.keys import (
    ClientKeys,
    ParsedKey,
    ServerKeys,
    ServiceKeys,
    matching_servers,
    parse_key,
    slug,
)
from lefleet_client.wire.limits import MAX_MESSAGE_BYTES
from lefleet_client.wire.observation import Frame, Observation
from lefleet_client.wire.session import (
    Reset,
    ResetAck,
    ResetReply,
    SessionAck,
    SessionClose,
    SessionCloseAck,
    SessionOpen,
    SessionRejected,
    SessionReply,
    SessionRequest,
)
from lefleet_client.wire.status import SessionStatus, Status
from lefleet_client.wire.tensor import Tensor, decode_tensor, encode_tensor
from lefleet_client.wire.version import OLDEST_VERSION, SCHEMA_VERSION, agree

__all__ = [
    "CHUNK",
    "EVENT",
    "MAX_MESSAGE_BYTES",
    "OBSERVATION",
    "OLDEST_VERSION",
    "REPLACED",
    "RESET",
    "RESET_REPLY",
    "SCHEMA_VERSION",
    "SESSION_REPLY",
    "SESSION_REQUEST",
    "STATUS",
    "ActionChunk",
    "BadBody",
    "BadHeader",
    "BadImage",
    "BadKey",
    "BadTensor",
    "Body",
    "ClientKeys",
    "Contract",
    "Draining",
    "Event",
    "Frame",
    "Header",
    "HeaderReader",
    "Image",
    "MessageType",
    "NoCommonVersion",
    "Observation",
    "ParsedKey",
    "Probed",
    "RequestFailed",
    "Reset",
    "ResetAck",
    "ResetReply",
    "ServerKeys",
    "ServiceKeys",
    "SessionAck",
    "SessionClose",
    "SessionCloseAck",
    "SessionClosed",
    "SessionOpen",
    "SessionRejected",
    "SessionReply",
    "SessionRequest",
    "SessionStatus",
    "Status",
    "Tensor",
    "WireError",
    "agree",
    "decode_image",
    "decode_images",
    "decode_tensor",
    "encode_image",
    "encode_images",
    "encode_tensor",
    "matching_servers",
    "parse_key",
    "slug",
]
