"""Checks the signature in a program for macOS: on ARM the kernel kills a program whose pages do not match it."""

import hashlib
import struct

MACHO_64 = 0xFEEDFACF
CODE_SIGNATURE = 0x1D
CODE_DIRECTORY = 0xFADE0C02


def check_signature(path):
    """Raises ValueError if the program has no signature, or one that does not match its pages."""
    program = path.read_bytes()
    magic, _, _, _, commands = struct.unpack_from("<5I", program)
    if magic != MACHO_64:
        raise ValueError(f"{path} is no program for macOS")
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", program, at)
        if command == CODE_SIGNATURE:
            offset, length = struct.unpack_from("<2I", program, at + 8)
            return check_pages(path, program, program[offset : offset + length])
        at += size
    raise ValueError(f"{path} has no signature")


def check_pages(path, program, signature):
    count = struct.unpack_from(">3I", signature)[2]
    offsets = [struct.unpack_from(">2I", signature, 12 + 8 * index)[1] for index in range(count)]
    directories = [at for at in offsets if struct.unpack_from(">I", signature, at)[0] == CODE_DIRECTORY]
    if not directories:
        raise ValueError(f"{path} has a signature without hashes")
    for at in directories:
        _, _, _, _, hashes, _, _, slots, limit = struct.unpack_from(">9I", signature, at)
        hash_size, _, _, page_bits = struct.unpack_from(">4B", signature, at + 36)
        page = 1 << page_bits
        for slot in range(slots):
            content = program[slot * page : min((slot + 1) * page, limit)]
            wanted = signature[at + hashes + slot * hash_size :][:hash_size]
            if hashlib.sha256(content).digest()[:hash_size] != wanted:
                raise ValueError(f"{path}: page {slot} does not match the signature")
