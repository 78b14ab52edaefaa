"""Network file systems are recognised by the kernel's list of mounts."""

from contextlib import closing
from pathlib import Path

import pytest

from lefleet.errors import BadInput
from lefleet.ledger import file_system, open_ledger, read_ledger
from lefleet.ledger.copying import copy_ledger
from lefleet.ledger.file_system import network_type

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 0:27 / /tmp rw shared:3 - tmpfs tmpfs rw,size=24684100k
41 27 0:40 / /mnt/lab rw,relatime shared:21 master:7 - nfs4 filer:/lab rw,vers=4.2,hard
42 41 8:1 / /mnt/lab/scratch rw - xfs /dev/sda1 rw
43 27 0:41 / /mnt/with\\040space rw - cifs //server/share rw
44 27 0:42 / /mnt/far rw - fuse.sshfs me@host:/data rw
45 27 0:43 / /mnt/usb rw - fuse.ntfs-3g /dev/sdb1 rw
46 27 0:44 / /scratch rw - lustre 10.0.0.1@o2ib:/fs rw,flock
47 27 0:45 / /covered rw - nfs filer:/old rw
48 47 8:2 / /covered rw - btrfs /dev/sdc rw
49 27 0:46 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw,lowerdir=/a
50 27 0:47 / /pool rw - zfs pool rw
51 27 0:48 / /host rw - 9p hostshare rw,trans=virtio
52 27 0:49 / /cephs rw - ceph 10.0.0.2:/ rw
53 27 0:50 / /gpfs rw - gpfs fs rw
54 27 0:51 / /bee rw - beegfs beegfs_nodev rw
a line that no kernel writes
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/data/runs", ""),
        ("/tmp/runs", ""),
        ("/mnt/lab/runs", "nfs4"),
        ("/mnt/lab", "nfs4"),
        ("/mnt/labor", ""),
        ("/mnt/lab/scratch/runs", ""),
        ("/mnt/with space/runs", "cifs"),
        ("/mnt/far/me", "fuse.sshfs"),
        ("/mnt/usb/runs", ""),
        ("/scratch/me", "lustre"),
        ("/covered/runs", ""),
        ("/var/lib/docker/overlay2/x/merged/runs", ""),
        ("/pool/runs", ""),
        ("/host/runs", "9p"),
        ("/cephs/runs", "ceph"),
        ("/gpfs/runs", "gpfs"),
        ("/bee/runs", "beegfs"),
    ],
)
def test_the_mount_that_covers_a_folder_decides(folder, kind):
    assert network_type(MOUNTS, Path(folder)) == kind


def test_nothing_is_known_without_mounts():
    assert network_type("", Path("/runs")) == ""


@pytest.fixture
def network(tmp_path, monkeypatch):
    """A work folder on a network file system, as the list of mounts has it."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"41 27 0:40 / {tmp_path.resolve()} rw - nfs4 filer:/lab rw\n")
    monkeypatch.setattr(file_system, "MOUNTS", mounts)
    return tmp_path / "runs"


def test_a_ledger_in_a_file_there_is_refused_with_the_remedy_and_leaves_nothing(network):
    with pytest.raises(BadInput, match=r"network file system \(nfs4\).*ledger: postgresql\+psyc"):
        open_ledger(network)
    assert not network.exists()
    assert read_ledger(network).runs() == []


def test_a_ledger_that_is_there_already_can_be_moved_to_a_server(network, database, monkeypatch):
    with monkeypatch.context() as local:
        local.setattr(file_system, "MOUNTS", network)
        with closing(open_ledger(network)) as ledger:
            ledger.create_run("r", {})
    with pytest.raises(BadInput, match=r"network file system.*lefleet ledger copy .*runs postgres"):
        open_ledger(network)
    copy_ledger(str(network), database)
    with closing(open_ledger(network)) as ledger:
        assert [row.id for row in ledger.runs()] == ["r"]
    with pytest.raises(BadInput, match="network file system"):
        copy_ledger(database, str(network))


def test_a_ledger_on_a_server_may_have_its_work_folder_there(network, database):
    ledger = open_ledger(network, database)
    assert ledger.create_run("r", {})
    ledger.close()
