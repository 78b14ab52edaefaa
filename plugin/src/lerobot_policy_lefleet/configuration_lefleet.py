"""Where the policy server is, and how to ask it: the flags `--policy.*`."""

from dataclasses import dataclass, field

from lerobot.configs import PreTrainedConfig

from lefleet_client.transport import Tls

CODECS = ("auto", "jpeg", "raw")


@PreTrainedConfig.register_subclass("lefleet")
@dataclass
class LefleetConfig(PreTrainedConfig):
    """A policy that runs on a LeFleet server.

    Everything that belongs to the checkpoint is the server's: its inputs, its processors, how many
    steps of a chunk are executed and how many observations it looks back.
    """

    device: str | None = "cpu"
    """Of the actions; the policy itself runs where the server is."""
    connect: str = "tcp/127.0.0.1:7447"
    """A router or a server; several, separated by commas, to reach replicas without a router."""
    service: str = ""
    """Empty: the only one that is there."""
    model: str = ""
    """Empty: any."""
    revision: str = ""
    """Empty: any."""
    pin_digest: str = ""
    """Only this checkpoint. Empty: any."""
    client_id: str = ""
    """What the server calls this program. Empty: the certificate's, or made from machine and
    process."""
    timeout_s: float = 30.0
    """How long one chunk may take, a restart of the server included."""
    image_codec: str = "raw"
    """raw: the policy sees the same pixels as on this machine. jpeg: as robots send them. auto:
    whichever is faster."""
    jpeg_quality: int = 90
    rename_map: dict[str, str] = field(default_factory=dict)
    """Keys of observations here to keys of the server's policy."""
    tls: str = ""
    """A folder that lefleet certs made, for tls/ endpoints; or the three files:"""
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    insecure: bool = False
    """Accept endpoints beyond this machine without TLS: others there can read and forge actions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.endpoints:
            raise ValueError("connect: it is empty; give an endpoint such as tls/10.0.0.5:7447")
        if self.image_codec not in CODECS:
            raise ValueError(f"image_codec: {self.image_codec!r} is none of {', '.join(CODECS)}")
        if not 1 <= self.jpeg_quality <= 100:
            raise ValueError(f"jpeg_quality: {self.jpeg_quality} is not 1 to 100")
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s: {self.timeout_s} is not above 0")
        if len({bool(path) for path in (self.tls_ca, self.tls_cert, self.tls_key)}) > 1:
            raise ValueError("tls_ca, tls_cert and tls_key: give all three, or none")
        if self.tls and self.tls_ca:
            raise ValueError("tls: a folder holds the three files; give it, or the files")

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.connect.split(",") if part.strip())

    @property
    def certificates(self) -> Tls | None:
        if self.tls:
            return Tls.folder(self.tls)
        if not self.tls_ca:
            return None
        return Tls(ca=self.tls_ca, cert=self.tls_cert, key=self.tls_key)

    @property
    def observation_delta_indices(self) -> None:
        return None

    @property
    def action_delta_indices(self) -> None:
        return None

    @property
    def reward_delta_indices(self) -> None:
        return None

    def get_optimizer_preset(self) -> None:
        raise NotImplementedError(NOT_TRAINED)

    def get_scheduler_preset(self) -> None:
        return None

    def validate_features(self) -> None:
        """Nothing can be said here: the server knows the policy's features."""


NOT_TRAINED = "a remote policy cannot be trained; train the checkpoint that the server serves"
