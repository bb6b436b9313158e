"""Unpacks an archive: unpack.py ARCHIVE FOLDER [ENDING...]

Each ENDING picks, by the end of its name, an archive inside the one before; the last one is unpacked into FOLDER.
Zip archives (wheels too) keep the permissions they record.
"""
import io
import os
import sys
import tarfile
import zipfile


def pick(data, ending):
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if name.endswith(ending)]
            return archive.read(only(names, ending))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        names = [member.name for member in archive if member.name.endswith(ending)]
        return archive.extractfile(only(names, ending)).read()


def only(names, ending):
    if len(names) != 1:
        sys.exit(f"expected one entry ending in {ending}, found {names}")
    return names[0]


def main(path, folder, endings):
    with open(path, "rb") as file:
        data = file.read()
    for ending in endings:
        data = pick(data, ending)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            written = archive.extract(entry, folder)
            mode = entry.external_attr >> 16 & 0o777
            if mode and not entry.is_dir():
                os.chmod(written, mode)


main(sys.argv[1], sys.argv[2], sys.argv[3:])
