"""What a robot reports of itself: its fail-safe state, how fresh its actions are, who serves it."""

from msgspec.structs import replace

from lefleet_client.wire.bodies import Body, Message
from lefleet_client.wire.limits import (
    LABEL_LENGTH,
    MAX_REMARKS,
    REMARK_LENGTH,
    ROBOT_ANSWER,
    TASK_LENGTH,
    U32,
    Count,
    Duration,
    Label,
    Name,
    Remark,
    Remarks,
    TaskText,
)


class RobotStatus(Message, frozen=True, kw_only=True):
    """One robot as it sees itself; all times are durations, all counts since its program started.

    `state` is one of connecting, streaming, degraded, stalled, reconnecting, dead. It is no closed
    list, so that an older reader can still show the state of a newer robot.
    """

    client_id: Name
    state: Name
    state_s: Duration = 0.0
    """How long it has been in this state."""
    reason: Remark = ""
    """Why it is in this state; empty while it is streaming."""
    age_s: Duration = 0.0
    """How long ago the robot wrote this status: an answer repeats the newest one."""
    paused: bool = False
    robot_type: Label = ""
    task: TaskText = ""
    service: Label = ""
    server: Label = ""
    """Whose session it has; empty without one."""
    digest: Label = ""
    episode_id: U32 = 0
    action_age_ms: Duration = 0.0
    """Age of the observation behind the last executed action, when that was executed."""
    buffer_ms: Duration = 0.0
    """How long the actions in its queue last."""
    fallbacks: Count = 0
    """Ticks on which a fallback replaced an action of the policy."""
    reconnects: Count = 0
    round_trip_ms: Duration = 0.0
    """Of the last chunk, from sending its observation to its arrival."""
    round_trip_p95_ms: Duration = 0.0
    image_codec: Label = ""
    """The codec of its last observation; empty before the first, and without images."""
    executed: Count = 0
    """Actions of the policy that were executed."""
    clamped: Count = 0
    refused: Count = 0
    """Both by the robot's guard."""
    warnings: Remarks = ()
    """Such as a latency that the checkpoint was never tried with."""

    def fitting(self) -> "RobotStatus":
        """The same with texts that every reader accepts: on one line, and not too long.

        Reasons repeat what other machines said, and robots name their types and tasks freely.
        """
        return replace(
            self,
            state=_line(self.state, LABEL_LENGTH),
            reason=_line(self.reason, REMARK_LENGTH),
            robot_type=_line(self.robot_type, LABEL_LENGTH),
            task=_line(self.task, TASK_LENGTH),
            service=_line(self.service, LABEL_LENGTH),
            server=_line(self.server, LABEL_LENGTH),
            digest=_line(self.digest, LABEL_LENGTH),
            image_codec=_line(self.image_codec, LABEL_LENGTH),
            warnings=tuple(_line(one, REMARK_LENGTH) for one in self.warnings[:MAX_REMARKS]),
        )

    def aged(self, age_s: float) -> "RobotStatus":
        """The same, written so long ago."""
        return replace(self, age_s=age_s)


def _line(text: str, longest: int) -> str:
    cut = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return "".join(letter if letter.isprintable() else " " for letter in cut)


ROBOT_STATUS: Body[RobotStatus] = Body("robot status", RobotStatus, ROBOT_ANSWER)
