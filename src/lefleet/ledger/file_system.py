"""Whether a folder is on a network file system, where SQLite's locks and shared memory fail."""

import re
from pathlib import Path

from lefleet.errors import BadInput
from lefleet.ledger.address import FILE

MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|afs|9p|lustre|ceph|gpfs|beegfs|glusterfs|ocfs2|gfs2|pvfs2|orangefs"
    r"|panfs|wekafs|davfs|ncpfs|coda"
    r"|fuse\.(sshfs|glusterfs|ceph|ceph-fuse|s3fs|gcsfuse|rclone|juicefs|davfs2|cvmfs2|curlftpfs"
    r"|smbnetfs|goofys|blobfuse2?|mfs|quobyte.*|seaweedfs|beegfs.*|lustre.*)"
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def network_type(mounts: str, folder: Path) -> str:
    """Type of the network file system that `folder` is on, by the text of a mountinfo file; empty
    where it is on a local one. `folder` is absolute, without links."""
    kind, depth = "", -1
    for line in mounts.splitlines():
        about, _, source = line.partition(" - ")
        fields, kinds = about.split(), source.split()
        if len(fields) < 5 or not kinds:
            continue
        point = Path(_ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4]))
        # Of several at one place, the last one covers the others.
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = kinds[0], len(point.parts)
    return kind if _NETWORK.fullmatch(kind) else ""


def require_local(workdir: Path) -> None:
    """BadInput where the work folder is on a network file system: a ledger in a file there breaks
    sooner or later. A system without mountinfo is not asked."""
    try:
        mounts = MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return
    if kind := network_type(mounts, workdir.resolve()):
        url = "postgresql+psycopg://USER@HOST/DATABASE"
        there = f"lefleet ledger copy {workdir} {url}"
        raise BadInput(
            f"workdir: {workdir} is on a network file system ({kind}), where a ledger in a file is "
            "not safe.",
            "Name a --workdir on a local disk, or put the ledger on Postgres: "
            f"{there if (workdir / FILE).exists() else f'ledger: {url} in the config'}",
        )
