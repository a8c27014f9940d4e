"""pylance's storage options as s3fs takes them: one dict serves both libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ALIASES = {
    "key": ("aws_access_key_id", "access_key_id"),
    "secret": ("aws_secret_access_key", "secret_access_key"),
    "token": ("aws_session_token", "aws_token", "session_token", "token"),
    "region": ("aws_region", "aws_default_region", "region", "default_region"),
    "endpoint": ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url"),
    "virtual_hosted": ("aws_virtual_hosted_style_request", "virtual_hosted_style_request"),
    "anonymous": ("aws_skip_signature", "skip_signature"),
    "allow_invalid_certificates": ("allow_invalid_certificates",),
}
_USER_AGENT = "airflow-provider-lancerefs"


def s3fs_arguments(storage_options: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments for S3FileSystem. Keys that only pylance knows are left to pylance."""
    given = {key.lower(): value for key, value in storage_options.items()}
    values = {
        name: next((given[key] for key in keys if given.get(key)), None)
        for name, keys in _ALIASES.items()
    }
    endpoint = values["endpoint"]
    virtual = _is_true(values["virtual_hosted"]) or (
        endpoint is None and values["virtual_hosted"] is None
    )
    client: dict[str, Any] = {"region_name": values["region"]} if values["region"] else {}
    if _is_true(values["allow_invalid_certificates"]):
        client["verify"] = False
    return {
        "key": values["key"],
        "secret": values["secret"],
        "token": values["token"],
        "anon": _is_true(values["anonymous"]),
        "endpoint_url": endpoint,
        "client_kwargs": client,
        "config_kwargs": {
            "s3": {"addressing_style": "virtual" if virtual else "path"},
            "retries": {"mode": "standard", "total_max_attempts": 3},
            "request_checksum_calculation": "when_required",
            # Given none, the SDK puts one together anew, twice for each request.
            "user_agent": given.get("user_agent") or _USER_AGENT,
        },
        "use_listings_cache": False,
    }


def _is_true(value: str | None) -> bool:
    return value is not None and value.lower() in ("true", "1", "yes", "on")
