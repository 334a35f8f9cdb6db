//! File systems on Linux, by their magic numbers.

use crate::node::NodeError;
use crate::node::file::failed;
use std::path::Path;

/// File systems of one machine, by their magic numbers: whatever can write there obeys the same kernel locks.
const LOCAL: [(u32, &str); 13] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x3153_464a, "jfs"),
    (0x5265_4973, "reiserfs"),
    (0x3434, "nilfs2"),
    (0x2405_1905, "ubifs"),
    (0x794c_7630, "overlayfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
];

/// Other file systems that people know by a name. What is in neither list is refused, too.
const OTHER: [(u32, &str); 18] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    // Sshfs, GlusterFS and virtiofs look like any other FUSE file system.
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "kAFS"),
    (0x7375_7245, "Coda"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x1983_0326, "BeeGFS"),
    (0x786f_4256, "vboxsf"),
    (0xbacb_acbc, "vmhgfs"),
    (0x4d44, "FAT"),
];

/// What people call the file system of `path`.
pub(crate) fn name(path: &Path) -> Result<Option<String>, NodeError> {
    let magic = magic(path)?;
    let known = LOCAL.iter().chain(&OTHER).find(|(known, _)| *known == magic);
    Ok(Some(known.map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).to_owned())))
}

/// Refuses a directory on a file system that is not known to be local.
pub(crate) fn must_be_local(path: &Path) -> Result<(), NodeError> {
    match foreign_kind(magic(path)?) {
        Some(kind) => {
            Err(NodeError::FileSystem { path: path.display().to_string().into(), kind: kind.into() })
        }
        None => Ok(()),
    }
}

fn magic(path: &Path) -> Result<u32, NodeError> {
    let found = rustix::fs::statfs(path)
        .map_err(|error| failed("identify the file system of", path, error.into()))?;
    // Magic numbers have 32 bits, but the field is wider on some machines and signed on some.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unnecessary_cast)]
    Ok(found.f_type as u32)
}

/// What the file system with this magic number is called, unless it is known to be local.
fn foreign_kind(magic: u32) -> Option<String> {
    if LOCAL.iter().any(|(local, _)| *local == magic) {
        return None;
    }
    let name = OTHER.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name);
    Some(name.map_or_else(|| format!("magic {magic:#x}"), |name| format!("{name}, magic {magic:#x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is not known to be local is refused, known by a name or not.
    #[test]
    fn only_local_file_systems_are_trusted() {
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x2fc1_2fc1, 0x0102_1994, 0x794c_7630] {
            assert_eq!(foreign_kind(local), None, "{local:#x}");
        }
        assert_eq!(foreign_kind(0x6969).as_deref(), Some("NFS, magic 0x6969"));
        assert_eq!(foreign_kind(0x4750_4653).as_deref(), Some("GPFS, magic 0x47504653"));
        assert_eq!(foreign_kind(0x1234_5678).as_deref(), Some("magic 0x12345678"));
        let twice = LOCAL.iter().chain(&OTHER).enumerate().find(|(at, (magic, _))| {
            LOCAL.iter().chain(&OTHER).skip(at + 1).any(|(other, _)| other == magic)
        });
        assert_eq!(twice, None);
    }
}
