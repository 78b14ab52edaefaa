"""The language of robots and policy servers: the one place that knows how bytes are laid out.

    errors        what is wrong with a name, a header, a body or an image
    limits        schema versions, and how large anything from the network may be
    keys          where in the key tree a message goes
    header        27 bytes that route and correlate a message
    tensor        arrays inside a body
    image, jpeg   pictures inside a body, several in parallel
    jpeg_markers  what a JPEG may consist of
    structure     what a body may consist of
    bodies        messages to MessagePack and back
    observation   what a robot sends
    replies       what a server publishes: chunks and events
    session       status and capabilities of a server; opening, resetting and closing a session
    robots        what a robot reports of itself

Bytes come from `transport` and from captures on disk, and go back there. Everything is checked
here, before memory is taken for it: what a `Body` returns is typed and complete. Imports msgspec,
numpy, and simplejpeg or OpenCV; neither zenoh, nor torch, nor lerobot. Every other folder may
import it.

Instants never cross machines. `client_mono_ns` means something on the robot that wrote it, and is
only echoed. Servers report durations.
"""

from lefleet_client.wire.bodies import Body
from lefleet_client.wire.errors import (
    BadBody,
    BadHeader,
    BadImage,
    BadKey,
    BadTensor,
    NoCommonVersion,
    WireError,
)
from lefleet_client.wire.header import Header, MessageType
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
    ParsedRobotKey,
    RobotKeys,
    ServerKeys,
    ServiceKeys,
    matching_robots,
    matching_servers,
    parse_key,
    parse_robot_key,
    slug,
)
from lefleet_client.wire.limits import (
    MAX_HISTORY,
    MAX_IMAGE_PIXELS,
    MAX_MESSAGE_BYTES,
    MAX_OBSERVATION_PIXELS,
    OLDEST_VERSION,
    SCHEMA_VERSION,
    BodyLimits,
    agree,
)
from lefleet_client.wire.observation import (
    OBSERVATION,
    Frame,
    Observation,
    ObservationLimits,
    decode_observation,
    observation_limits,
)
from lefleet_client.wire.replies import (
    CHUNK,
    EVENT,
    NEWER,
    REPLACED,
    ActionChunk,
    Draining,
    Event,
    Probed,
    RequestFailed,
    SessionClosed,
)
from lefleet_client.wire.robots import ROBOT_STATUS, RobotStatus
from lefleet_client.wire.session import (
    RESET,
    RESET_REPLY,
    SESSION_REPLY,
    SESSION_REQUEST,
    STATUS,
    STATUS_REQUEST,
    Capabilities,
    CodecChoice,
    Contract,
    Reset,
    ResetAck,
    ResetReply,
    ServerStatus,
    SessionAck,
    SessionClose,
    SessionCloseAck,
    SessionOpen,
    SessionRejected,
    SessionReply,
    SessionRequest,
    SessionStatus,
    StatusRequest,
)
from lefleet_client.wire.tensor import Tensor, decode_tensor, encode_tensor

__all__ = [
    "CHUNK",
    "EVENT",
    "MAX_HISTORY",
    "MAX_IMAGE_PIXELS",
    "MAX_MESSAGE_BYTES",
    "MAX_OBSERVATION_PIXELS",
    "NEWER",
    "OBSERVATION",
    "OLDEST_VERSION",
    "REPLACED",
    "RESET",
    "RESET_REPLY",
    "ROBOT_STATUS",
    "SCHEMA_VERSION",
    "SESSION_REPLY",
    "SESSION_REQUEST",
    "STATUS",
    "STATUS_REQUEST",
    "ActionChunk",
    "BadBody",
    "BadHeader",
    "BadImage",
    "BadKey",
    "BadTensor",
    "Body",
    "BodyLimits",
    "Capabilities",
    "ClientKeys",
    "CodecChoice",
    "Contract",
    "Draining",
    "Event",
    "Frame",
    "Header",
    "Image",
    "MessageType",
    "NoCommonVersion",
    "Observation",
    "ObservationLimits",
    "ParsedKey",
    "ParsedRobotKey",
    "Probed",
    "RequestFailed",
    "Reset",
    "ResetAck",
    "ResetReply",
    "RobotKeys",
    "RobotStatus",
    "ServerKeys",
    "ServerStatus",
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
    "StatusRequest",
    "Tensor",
    "WireError",
    "agree",
    "decode_image",
    "decode_images",
    "decode_observation",
    "decode_tensor",
    "encode_image",
    "encode_images",
    "encode_tensor",
    "matching_robots",
    "matching_servers",
    "observation_limits",
    "parse_key",
    "parse_robot_key",
    "slug",
]
