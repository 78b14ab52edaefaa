"""Of a long file of provenance only the part of one episode is read, wherever it is."""

import pytest

from lefleet.recording.provenance import FILE, FrameProvenance, encode_rows, read_provenance


def rows_of(lengths) -> list[FrameProvenance]:
    return [
        FrameProvenance(episode_index=number, frame_index=frame, session_id="s" * (7 * frame % 40))
        for number, length in enumerate(lengths)
        for frame in range(length)
    ]


@pytest.mark.parametrize(
    "lengths", [(), (1,), (0, 3), (5, 0, 0, 2), (1, 1, 1, 1), (40, 1, 0, 17, 90, 3), (0, 0, 2)]
)
@pytest.mark.parametrize("cut", [b"", b'{"episode_in', b'{"episode_index":1,"frame', b"\xff"])
def test_every_episode_is_found_also_where_a_kill_cut_the_last_line(tmp_path, lengths, cut):
    rows = rows_of(lengths)
    (tmp_path / FILE).write_bytes(b"".join(line + b"\n" for line in encode_rows(rows)) + cut)
    for number in range(-1, len(lengths) + 2):
        mine = [row for row in rows if row.episode_index == number]
        assert read_provenance(tmp_path, number) == mine
        assert read_provenance(tmp_path, number, 2) == mine[:2]


def test_without_a_file_there_is_none(tmp_path):
    assert read_provenance(tmp_path, 0) == []
