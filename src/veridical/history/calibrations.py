"""Keep fitted thresholds and probabilities as named versions. At most one version per detector is active."""

from __future__ import annotations

import json
from dataclasses import asdict

from sqlalchemy import Connection, insert, select, update

from veridical.detectors.calibrated import FittedCalibration
from veridical.history.deciding import note, now
from veridical.history.records import CalibrationVersion, Learning, NotKeptError
from veridical.history.tables import CALIBRATIONS
from veridical.io.serialization import decode, encode
from veridical.records.errors import InputError
from veridical.records.types import Level

__all__ = ["activate", "active_fits", "add", "fit_of", "versions"]


def add(connection: Connection, name: str, fitted: FittedCalibration, learning: Learning, run: str, by: str) -> None:
    """Store a version. It is not active until you call `activate`.

    Raises:
        InputError: There is already a version of this name.
    """
    if connection.execute(select(CALIBRATIONS.c.name).where(CALIBRATIONS.c.name == name)).first():
        raise InputError(f"there is a version {name!r} already", hint="choose another name")
    values = {"name": name, "detector": fitted.detector, "run": run, "created": now(), "by": by, "active": 0}
    written = {"body": encode(fitted), "learning": json.dumps(asdict(learning))}
    connection.execute(insert(CALIBRATIONS).values(**values, **written))
    note(connection, by, f"fit {name}", run)


def versions(connection: Connection) -> list[CalibrationVersion]:
    """Return all versions, newest first."""
    rows = connection.execute(select(CALIBRATIONS).order_by(CALIBRATIONS.c.created.desc(), CALIBRATIONS.c.name))
    found = []
    for row in rows.mappings():
        learning = json.loads(row["learning"])
        changed = decode(row["body"], "calibrated").scales[Level(learning["level"])]
        names = ("name", "detector", "run", "created", "by")
        found.append(
            CalibrationVersion(
                **{name: row[name] for name in names},
                active=bool(row["active"]),
                threshold=changed.threshold,
                calibrated=changed.calibration is not None,
                learning=learning,
            )
        )
    return found


def fit_of(connection: Connection, name: str) -> FittedCalibration:
    """Load the fitted thresholds and probabilities of a version.

    Raises:
        NotKeptError: There is no such version.
    """
    body = connection.execute(select(CALIBRATIONS.c.body).where(CALIBRATIONS.c.name == name)).scalar_one_or_none()
    if body is None:
        raise NotKeptError(f"there is no version {name!r}", hint="GET /v1/calibrations lists them")
    fitted: FittedCalibration = decode(body, "calibrated")
    return fitted


def active_fits(connection: Connection) -> dict[str, tuple[str, FittedCalibration]]:
    """Load the active versions, by detector, each as its name and its fitted thresholds and probabilities."""
    rows = connection.execute(select(CALIBRATIONS).where(CALIBRATIONS.c.active == 1)).mappings()
    return {row["detector"]: (row["name"], decode(row["body"], "calibrated")) for row in rows}


def activate(connection: Connection, name: str, by: str, *, active: bool) -> None:
    """Make a version the active one of its detector, or deactivate all versions of its detector.

    Raises:
        NotKeptError: There is no such version.
    """
    row = connection.execute(select(CALIBRATIONS).where(CALIBRATIONS.c.name == name)).mappings().one_or_none()
    if row is None:
        raise NotKeptError(f"there is no version {name!r}", hint="GET /v1/calibrations lists them")
    if bool(row["active"]) == active:
        return
    of_detector = CALIBRATIONS.c.detector == row["detector"]
    connection.execute(update(CALIBRATIONS).where(of_detector).values(active=0))
    if active:
        connection.execute(update(CALIBRATIONS).where(CALIBRATIONS.c.name == name).values(active=1))
    note(connection, by, f"{'activate' if active else 'deactivate'} {name}", row["run"])
