"""How full volumes and disks are, and when somebody must know."""

from tests.unit.infra.monitoring.rules.promtool import AlertCase, RecordingCase


def _volume(name, free, total, inodes_free="90x100", inodes="100x100"):
    labels = f'{{namespace="team", persistentvolumeclaim="{name}", node="n1"}}'
    return {
        f"kubelet_volume_stats_available_bytes{labels}": free,
        f"kubelet_volume_stats_capacity_bytes{labels}": total,
        f"kubelet_volume_stats_inodes_free{labels}": inodes_free,
        f"kubelet_volume_stats_inodes{labels}": inodes,
    }


def _disk(mountpoint, free, *, size="100x100", kind="ext4", readonly="0x100", files_free="90x100"):
    labels = f'{{node="n1", device="/dev/vda1", fstype="{kind}", mountpoint="{mountpoint}"}}'
    return {
        f"node_filesystem_avail_bytes{labels}": free,
        f"node_filesystem_size_bytes{labels}": size,
        f"node_filesystem_files_free{labels}": files_free,
        f"node_filesystem_files{labels}": "100x100",
        f"node_filesystem_readonly{labels}": readonly,
    }


_DATA = {"namespace": "team", "persistentvolumeclaim": "data"}
_ROOT = {"node": "n1", "mountpoint": "/"}
_IMAGES = _disk("/snap/core", "0x100", kind="squashfs")
_READ_ONLY = _disk("/mnt/cd", "0x100", readonly="1x100")
_OF_PODS = _disk("/var/lib/kubelet/pods/x/volumes/y", "0x100", kind="nfs4")

CASES = (
    AlertCase(
        alert="VolumeNearlyFull",
        says="for ten minutes; one with room is silent",
        series={**_volume("data", "50x4 10x20 50x40", "100x100"), **_volume("other", "50x100", "100x100")},
        fires={"16m": [{**_DATA, "what": "bytes"}], "24m": [{**_DATA, "what": "bytes"}]},
        quiet=["14m", "26m"],
    ),
    AlertCase(
        alert="VolumeNearlyFull",
        says="out of inodes, with bytes left",
        series=_volume("data", "50x100", "100x100", "50x4 10x20 50x40"),
        fires={"16m": [{**_DATA, "what": "inodes"}]},
        quiet=["14m", "26m"],
    ),
    AlertCase(
        alert="VolumeFull",
        says="for a minute",
        series={**_volume("data", "50x4 1x20 50x40", "100x100"), **_volume("other", "10x100", "100x100")},
        fires={"6m": [{**_DATA, "what": "bytes"}], "24m": [{**_DATA, "what": "bytes"}]},
        quiet=["5m", "26m"],
    ),
    AlertCase(
        alert="NodeDiskNearlyFull",
        says="for ten minutes; what cannot be written, or is a pod's volume, is silent",
        series={**_disk("/", "50x4 10x20 50x40"), **_IMAGES, **_READ_ONLY, **_OF_PODS},
        fires={"16m": [{**_ROOT, "what": "bytes"}]},
        quiet=["14m", "26m"],
    ),
    AlertCase(
        alert="NodeDiskFull",
        says="for a minute; one percent of 10 TB is much",
        series={
            **_disk("/", "50x4 1x20 50x40"),
            **_disk("/data", "10x100"),
            **_disk("/large", "100000000000x100", size="10000000000000x100"),
            **_IMAGES,
            **_READ_ONLY,
        },
        fires={"6m": [{**_ROOT, "what": "bytes"}]},
        quiet=["5m", "26m"],
    ),
    AlertCase(
        alert="NodeDiskFull",
        says="out of inodes",
        series=_disk("/", "50x100", files_free="50x4 0x20 50x40"),
        fires={"6m": [{**_ROOT, "what": "inodes"}]},
        quiet=["5m", "26m"],
    ),
    RecordingCase(
        record="volume:used:ratio",
        says="of bytes and of inodes",
        series=_volume("data", "25x10", "100x10"),
        at="5m",
        gives={
            '{namespace="team", persistentvolumeclaim="data", what="bytes"}': 0.75,
            '{namespace="team", persistentvolumeclaim="data", what="inodes"}': 0.1,
        },
    ),
)
