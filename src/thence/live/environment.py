"""Keys of a configuration from environment variables, which override the file.

`THENCE_LIVE_NAME` is `name`, `THENCE_LIVE_LIMITS__PAYLOAD_BYTES` is `payload_bytes` in the table `limits`. Texts stand
as they are, numbers and tables as TOML writes them (`THENCE_LIVE_ADDRESSES='{a = "10.0.0.1:7000"}'`), `processes` also
with commas between (`a,b,c`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

from thence.errors import MisuseError
from thence.live.config import CONFIG_KEYS, Toml

VARIABLE_PREFIX = "THENCE_LIVE_"
TEXTS = {*CONFIG_KEYS[""]} - {"processes", "options", "addresses", "tls", "plain", "nats", "limits"}
TEXTS |= {f"tls.{key}" for key in CONFIG_KEYS["tls"]} | {"limits.away"}
TEXTS |= {f"nats.{key}" for key in CONFIG_KEYS["nats"] if key not in ("servers", "replicas")}


def overlay(values: Mapping[str, Toml], environment: Mapping[str, str]) -> dict[str, Toml]:
    """Return the values of a file with those of the environment in their place."""
    found = dict(values)
    for variable, text in environment.items():
        if not variable.startswith(VARIABLE_PREFIX):
            continue
        table, _, key = variable[len(VARIABLE_PREFIX) :].lower().rpartition("__")
        if key not in CONFIG_KEYS.get(table, ()) and not (table == "options" and key):
            raise MisuseError(f"{variable} in the environment is not a key; after {VARIABLE_PREFIX} stands {_known()}")
        value = _value(variable, f"{table}.{key}" if table else key, text)
        if not table:
            found[key] = value
            continue
        within = found.get(table, {})
        found[table] = {**(within if isinstance(within, dict) else {}), key: value}
    return found


def _value(variable: str, key: str, text: str) -> Toml:
    if key in TEXTS:
        return text
    if key == "processes" and not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",")]
    try:
        value: Toml = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        if key.startswith("options."):
            return text
        raise MisuseError(f"{variable} in the environment is {text!r:.60}, which TOML cannot read: {error}") from error
    return value


def _known() -> str:
    names = [key.upper() for key in CONFIG_KEYS[""] if key not in CONFIG_KEYS]
    names += [f"{table.upper()}__{key.upper()}" for table in CONFIG_KEYS if table for key in CONFIG_KEYS[table]]
    return ", ".join(names)
