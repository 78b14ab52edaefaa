"""Tokens of people: what is kept of them, who has one, and what ends them."""

import json
import os
import stat
import threading

import pytest

from lefleet.actions.people import RIGHTS, NotPermitted, Person, system_user, token_holder
from lefleet.dash import tokens
from lefleet.dash.tokens import TokenFile
from lefleet.errors import BadInput


def person_of(opened: TokenFile, text: str) -> Person | None:
    found = opened.find(text)
    return found.person if found is not None else None


@pytest.fixture
def file(tmp_path):
    return tmp_path / ".dash" / "tokens.json"


def test_a_token_names_its_person_and_what_they_may(tmp_path):
    text = tokens.add(tmp_path, "anna", ("label", "approve"))
    found = person_of(TokenFile(tmp_path), text)
    assert found == Person(name="anna (token)", may=("approve", "label"))


def test_a_token_is_long_random_and_recognisable(tmp_path):
    texts = {tokens.add(tmp_path, f"p{number}") for number in range(5)}
    assert len(texts) == 5
    assert all(one.startswith("lefleet_") and len(one) == len("lefleet_") + 43 for one in texts)


def test_the_file_has_no_token_and_is_only_for_its_owner(tmp_path, file):
    before = os.umask(0)
    try:
        text = tokens.add(tmp_path, "anna")
    finally:
        os.umask(before)
    assert text not in file.read_text()
    assert text.removeprefix("lefleet_") not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [one.name for one in file.parent.iterdir() if "partial" in one.name] == []


@pytest.mark.parametrize("text", ["", "lefleet_", "x" * 10_000_000, "lefleet_\udcff", "\0"])
def test_other_text_is_nobodys_token(tmp_path, text):
    tokens.add(tmp_path, "anna")
    assert person_of(TokenFile(tmp_path), text) is None


def test_the_hash_of_a_token_is_no_token(tmp_path, file):
    tokens.add(tmp_path, "anna")
    kept = json.loads(file.read_text())["tokens"][0]["sha256"]
    assert person_of(TokenFile(tmp_path), kept) is None


def test_an_open_file_follows_what_is_added_and_revoked(tmp_path):
    opened = TokenFile(tmp_path)
    assert person_of(opened, "lefleet_x") is None
    anna = tokens.add(tmp_path, "anna")
    ben = tokens.add(tmp_path, "ben")
    entry = opened.find(anna)
    assert opened.is_live(entry)
    tokens.revoke(tmp_path, "anna")
    assert person_of(opened, anna) is None
    assert not opened.is_live(entry)
    assert person_of(opened, ben) == Person(name="ben (token)")


def test_a_name_that_was_revoked_can_be_used_again_and_the_old_token_stays_dead(tmp_path):
    old = tokens.add(tmp_path, "anna", ("run",))
    tokens.revoke(tmp_path, "anna")
    new = tokens.add(tmp_path, "anna")
    opened = TokenFile(tmp_path)
    assert person_of(opened, old) is None
    assert person_of(opened, new) == Person(name="anna (token)")
    assert [one.revoked_at is None for one in tokens.listed(tmp_path)] == [False, True]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "0 characters"),
        ("x" * 65, "65 characters"),
        ("a\nb", "cannot be printed"),
        ("a\u202eb", "cannot be printed"),
        ("a\u200bb", "cannot be printed"),
        ("\udcff", "cannot be printed"),
        (" anna", "begins or ends with a space"),
        ("anna ", "begins or ends with a space"),
        ("timeout", "something else"),
        ("TimeOut", "something else"),
        ("anna (token)", "something else"),
        ("\uff54imeout", "something else"),
    ],
)
def test_a_name_that_would_mislead_is_refused_and_nothing_is_written(tmp_path, name, words):
    with pytest.raises(BadInput, match=r"^name: ") as caught:
        tokens.add(tmp_path / "runs", name)
    assert words in str(caught.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("other", ["anna", "ANNA", "\uff41nna"])
def test_a_name_has_one_live_token(tmp_path, other):
    tokens.add(tmp_path, "anna")
    with pytest.raises(BadInput, match="anna has a token already"):
        tokens.add(tmp_path, other)


def test_revoking_an_unknown_name_suggests_a_known_one(tmp_path):
    with pytest.raises(BadInput, match="See: lefleet dash token list"):
        tokens.revoke(tmp_path, "anna")
    assert not (tmp_path / ".dash").exists()
    tokens.add(tmp_path, "anna")
    with pytest.raises(BadInput, match="Did you mean anna"):
        tokens.revoke(tmp_path, "ana")


def test_tokens_that_are_added_at_once_are_all_kept(tmp_path):
    names = [f"person {number}" for number in range(20)]
    threads = [threading.Thread(target=tokens.add, args=(tmp_path, name)) for name in names]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(one.name for one in tokens.listed(tmp_path)) == sorted(names)


def test_a_broken_file_lets_nobody_in_and_says_why(tmp_path, file):
    text = tokens.add(tmp_path, "anna")
    opened = TokenFile(tmp_path)
    sound = file.read_bytes()
    file.write_bytes(sound[:-20])
    assert person_of(opened, text) is None
    assert "tokens.json" in opened.problem
    with pytest.raises(BadInput):
        tokens.add(tmp_path, "ben")
    file.write_bytes(sound)
    assert person_of(opened, text) is not None
    assert opened.problem == ""


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_lets_nobody_in(tmp_path, file, mode):
    text = tokens.add(tmp_path, "anna")
    file.chmod(mode)
    opened = TokenFile(tmp_path)
    assert person_of(opened, text) is None
    assert "chmod 600" in opened.problem


def test_a_removed_file_ends_all_tokens(tmp_path, file):
    text = tokens.add(tmp_path, "anna")
    opened = TokenFile(tmp_path)
    assert person_of(opened, text)
    file.unlink()
    assert person_of(opened, text) is None


def test_the_holder_of_a_token_is_never_taken_for_a_system_user():
    user = system_user()
    assert user.may == RIGHTS
    assert token_holder(user.name, RIGHTS).name == f"{user.name} (token)"


def test_a_person_without_a_right_is_told_how_to_get_it():
    person = token_holder("anna", ("label",))
    person.require("label")
    with pytest.raises(NotPermitted, match="anna \\(token\\) may not answer") as caught:
        person.require("approve")
    assert "--may approve" in caught.value.remedy
