"""A smartphone in use, in a minute: chats, contacts, settings, a browser, photos, videos and updates of apps.

`phone.py FOLDER [STEPS]` works in FOLDER, which must be empty or absent. Recorded with `ftlab trace record` it gives a
trace with the habits of such a device. SQLite makes many small durable writes, with rollback journals and with
write-ahead logs. Files are written once in order, and a lot is deleted. The same seed makes the same calls, except for
their times.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import time
from pathlib import Path

KIB, MIB = 1024, 1024 * 1024
VIDEOS = 0.08
MOST_PHOTOS = 45


class Phone:
    """What is stored, and what is done with it."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Set the smartphone up, with its databases and some content."""
        self.folder = folder
        self.random = random.Random(seed)  # noqa: S311 - a workload, not a secret
        for name in ("cache", "photos", "apps", "settings"):
            (folder / name).mkdir(parents=True)
        self.chat = self.database("chat.db", "wal")
        self.chat.execute("create table message (id integer primary key, peer integer, text blob)")
        self.chat.execute("create index by_peer on message (peer)")
        self.contacts = self.database("contacts.db", "delete")
        self.contacts.execute("create table contact (id integer primary key, name text, used integer, photo blob)")
        rows = [(number, f"Person {number}", 0, self.random.randbytes(900)) for number in range(4000)]
        with self.contacts:
            self.contacts.executemany("insert into contact values (?, ?, ?, ?)", rows)
        self.media = self.database("media.db", "delete")
        self.media.execute("create table photo (name text primary key, bytes integer, thumbnail blob)")
        self.made = 0
        for app in range(8):
            self.update_app(app)
        for _ in range(25):
            self.take_photo()

    def database(self, name: str, journal: str) -> sqlite3.Connection:
        """Open a database as smartphones do: small cache, every transaction durable."""
        connection = sqlite3.connect(self.folder / name)
        connection.execute(f"pragma journal_mode = {journal}")
        connection.execute("pragma synchronous = full")
        connection.execute("pragma cache_size = 200")
        return connection

    def write(self, path: Path, size: int, piece: int) -> None:
        """Write a file from begin to end, durably."""
        with path.open("wb", buffering=0) as file:
            for begin in range(0, size, piece):
                file.write(self.random.randbytes(min(piece, size - begin)))
            os.fsync(file.fileno())

    def send_message(self) -> None:
        """Store a message and read the last ones of the same peer."""
        peer = min(int(self.random.paretovariate(0.7)), 300)
        with self.chat:
            text = self.random.randbytes(self.random.randrange(40, 1500))
            self.chat.execute("insert into message (peer, text) values (?, ?)", (peer, text))
        self.chat.execute("select text from message where peer = ? order by id desc limit 20", (peer,)).fetchall()

    def call_someone(self) -> None:
        """Look a contact up and count the call."""
        number = self.random.randrange(4000)
        self.contacts.execute("select photo from contact where id = ?", (number,)).fetchone()
        with self.contacts:
            self.contacts.execute("update contact set used = used + 1 where id = ?", (number,))

    def browse(self) -> None:
        """Store some files of a page; the oldest go when there are too many."""
        for _ in range(self.random.randrange(1, 6)):
            self.made += 1
            size = min(int(self.random.lognormvariate(9.5, 1.3)), 2 * MIB)
            (self.folder / "cache" / f"{self.made:08}").write_bytes(self.random.randbytes(size))
        for path in sorted((self.folder / "cache").iterdir())[:-600]:
            path.unlink()

    def save_settings(self) -> None:
        """Replace a small file: write a new one, and rename it."""
        app = self.random.randrange(8)
        new = self.folder / "settings" / f"{app}.new"
        self.write(new, self.random.randrange(500, 12_000), 64 * KIB)
        new.rename(self.folder / "settings" / f"{app}.xml")

    def take_photo(self) -> None:
        """Store a photo, or now and then a video, and its thumbnail; delete one when there are many."""
        self.made += 1
        name = f"{self.made:08}.jpg"
        size = self.random.randrange(1500 * KIB, 4 * MIB)
        if self.random.random() < VIDEOS:
            size = self.random.randrange(8 * MIB, 24 * MIB)
        self.write(self.folder / "photos" / name, size, 256 * KIB)
        with self.media:
            row = (name, size, self.random.randbytes(6000))
            self.media.execute("insert into photo values (?, ?, ?)", row)
        photos = sorted((self.folder / "photos").iterdir())
        if len(photos) > MOST_PHOTOS:
            gone = self.random.choice(photos)
            with self.media:
                self.media.execute("delete from photo where name = ?", (gone.name,))
            gone.unlink()

    def look_at_photos(self) -> None:
        """Read a photo."""
        self.random.choice(sorted((self.folder / "photos").iterdir())).read_bytes()

    def update_app(self, app: int) -> None:
        """Store a new version beside the old one and put it in its place."""
        new = self.folder / "apps" / f"{app}.new"
        self.write(new, self.random.randrange(3 * MIB, 9 * MIB), 512 * KIB)
        new.rename(self.folder / "apps" / f"{app}.apk")

    def step(self) -> None:
        """Do one thing, with a pause before it."""
        time.sleep(self.random.expovariate(1 / 0.002))
        does = self.random.choices(
            [
                self.send_message,
                self.call_someone,
                self.browse,
                self.save_settings,
                self.take_photo,
                self.look_at_photos,
                lambda: self.update_app(self.random.randrange(8)),
            ],
            weights=[45, 15, 18, 12, 3, 6, 1],
        )[0]
        does()


def main() -> None:
    """Use the smartphone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("steps", type=int, nargs="?", default=6000)
    arguments = parser.parse_args()
    phone = Phone(arguments.folder, seed=1)
    for _ in range(arguments.steps):
        phone.step()


if __name__ == "__main__":
    main()
