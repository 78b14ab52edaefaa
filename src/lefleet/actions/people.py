"""Who a person is, as every record shows it: the system user, or the name of a token.

A token's name is followed by ` (token)`. No system user has such a name, so a record that says
`anna` is about the user of that machine, and `anna (token)` about whoever was given that token.
"""

import os
import pwd
from typing import Literal, get_args

from lefleet.errors import BadInput, LeFleetError
from lefleet.records.border import Strict

Right = Literal["approve", "label", "run", "film", "edit"]
RIGHTS: tuple[Right, ...] = get_args(Right)
"""What a person may be allowed to do; to look is allowed to everybody who may come in."""
_MARK = " (token)"
_VERBS: dict[Right, str] = {
    "approve": "answer what runs ask",
    "label": "label episodes",
    "run": "start, stop and resume runs",
    "film": "ask for films",
    "edit": "edit knowledge pages",
}

_LONGEST = 2000
"""Characters of what a person writes with a record."""


class NotPermitted(LeFleetError):
    """A person is known, but may not do this."""


class Person(Strict, frozen=True, kw_only=True):
    """Somebody who looks at runs, and perhaps does something about them."""

    name: str
    """The `who` of every record of what this person does."""
    may: tuple[Right, ...] = ()
    """In the order of `RIGHTS`."""

    def require(self, right: Right) -> None:
        """Raise `NotPermitted` where this person may not."""
        if right not in self.may:
            raise NotPermitted(
                f"{self.name} may not {_VERBS[right]}.",
                f"Whoever started the dashboard can give a token with it: --may {right}",
            )


def system_user() -> Person:
    """Whoever runs this process; may do everything."""
    return Person(name=user_name(), may=RIGHTS)


def token_holder(name: str, may: tuple[Right, ...]) -> Person:
    """Whoever has the token `name`."""
    return Person(name=f"{name}{_MARK}", may=may)


def is_token_holder(person: Person) -> bool:
    """Whether a person came in with a token, and so can log out."""
    return person.name.endswith(_MARK)


def user_name() -> str:
    """The system user, whatever the environment says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # In a container, a number may have no name.
        return str(os.getuid())


def words_of(text: str, field: str) -> str:
    """What a person wrote, on one line and printable; BadInput where it is too long."""
    said = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    if len(said) > _LONGEST:
        raise BadInput(f"{field}: {len(said)} characters.", f"Use at most {_LONGEST}.")
    return said
