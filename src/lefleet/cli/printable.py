"""Texts of others, before a person's terminal or log sees them: no escapes, no forged lines."""

import json


def printable(text: str) -> str:
    """The text on one line; what would move the cursor or hide itself is a question mark."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def quoted(text: str) -> str:
    """The text in JSON's quotes, with everything escaped that cannot be seen."""
    escaped = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in escaped)


def _escape(letter: str) -> str:
    """As JSON has it, also where JSON would let it pass: U+009B begins a terminal's command."""
    code = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
