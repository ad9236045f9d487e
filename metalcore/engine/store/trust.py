"""Whether a folder may hold code that this process will load: only its user, and root, can change what is in it."""

from __future__ import annotations

import os
import stat

from metalcore.errors import CacheRefused

_REMEDY = "METALCORE_CACHE names another folder"


def private_folder(folder: str) -> str:
    """The real path of a folder, made with mode 0700 where it is not there.

    Raises CacheRefused where another user could put files into it, or another folder in its place. One that cannot be
    made is no error here: writing to it will be.
    """
    real = os.path.realpath(folder)
    if not hasattr(os, "geteuid"):
        return real
    above = os.path.dirname(real)
    while above != os.path.dirname(above):
        _check_above(above, real)
        above = os.path.dirname(above)
    make_private(real)
    try:
        found = os.stat(real)
    except OSError:
        return real
    if stat.S_ISDIR(found.st_mode):
        check_own(real, found)
    return real


def check_own(folder: str, found: os.stat_result) -> None:
    """Refuse a folder of the cache that is a link, that somebody else owns, or that others may write to."""
    if stat.S_ISLNK(found.st_mode):
        raise CacheRefused(f"the cache is not used: {folder} is a symbolic link; remove it, or {_REMEDY}")
    if found.st_uid not in (os.geteuid(), 0):
        raise CacheRefused(
            f"the cache folder {folder} is not used: it belongs to {_user(found.st_uid)}, and this process runs as "
            f"{_user(os.geteuid())}, which would load code from it; {_REMEDY}"
        )
    if found.st_mode & 0o022:
        who = "everybody" if found.st_mode & 0o002 else "its group"
        raise CacheRefused(
            f"the cache folder {folder} is not used: {who} can write to it (mode {stat.S_IMODE(found.st_mode):04o}), "
            f"and code is loaded from it; `metalcore cache --clear` and `chmod go-w {folder}` mend that, or {_REMEDY}"
        )


def is_own(found: os.stat_result) -> bool:
    """Whether an opened file is a regular one that nobody else can have written."""
    if not stat.S_ISREG(found.st_mode):
        return False
    return not hasattr(os, "geteuid") or (found.st_uid in (os.geteuid(), 0) and not found.st_mode & 0o022)


def _check_above(folder: str, cache: str) -> None:
    try:
        found = os.stat(folder)
    except OSError:
        return  # not there yet, or not to be seen: then it cannot be written either
    if found.st_uid not in (os.geteuid(), 0):
        reason = f"belongs to {_user(found.st_uid)}, and this process runs as {_user(os.geteuid())}"
    elif found.st_mode & stat.S_ISVTX:
        return
    elif found.st_mode & 0o002:
        reason = "can be written by everybody"
    elif found.st_mode & 0o020 and not _is_private_group(found.st_gid):
        reason = "can be written by its group"
    else:
        return
    raise CacheRefused(
        f"the cache folder {cache} is not used: the folder {folder} above it {reason}, so that another user could put "
        f"code in its place; `chmod go-w {folder}` where it is yours, or {_REMEDY}"
    )


def _is_private_group(group: int) -> bool:
    """Whether it is the group that many systems make for one user alone."""
    try:
        import grp
        import pwd

        user, entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except (ImportError, KeyError):
        return False
    return entry.gr_name == user.pw_name and user.pw_gid == group and set(entry.gr_mem) <= {user.pw_name}


def _user(number: int) -> str:
    try:
        import pwd

        return f"user {pwd.getpwuid(number).pw_name!r}"
    except (ImportError, KeyError):
        return f"user {number}"


def make_private(folder: str) -> None:
    """The folder and those above it that are missing, for this user alone."""
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        if os.path.dirname(folder) == folder:
            return
        folder = os.path.dirname(folder)
    for each in reversed(missing):
        try:
            os.mkdir(each, 0o700)
        except FileExistsError:  # another process was quicker
            continue
        except OSError:
            return
