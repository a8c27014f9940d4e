"""What Airflow reads of this provider. Imports nothing: an error here would break all of them."""

from __future__ import annotations

from typing import Any

_NAME = "Lance Refs"
_PACKAGE = "airflow_provider_lancerefs"


def get_provider_info() -> dict[str, Any]:
    return {
        "package-name": "airflow-provider-lancerefs",
        "name": _NAME,
        "description": "Branches, tags and shallow clones of Lance tables, a branch for every run.",
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://lance.org",
                "tags": ["software"],
            }
        ],
        "hooks": [_modules("hooks", "refs")],
        "operators": [
            _modules("operators", "branch", "clone", "expire", "publish", "spark", "tag")
        ],
        "sensors": [_modules("sensors", "refs")],
        "triggers": [_modules("triggers", "refs")],
        "connection-types": [_connection_type()],
        "asset-uris": [
            {
                "schemes": ["lancerefs"],
                "handler": f"{_PACKAGE}.assets.sanitize_uri",
                "factory": f"{_PACKAGE}.assets.create_asset",
                "to_openlineage_converter": f"{_PACKAGE}.assets.convert_asset_to_openlineage",
            }
        ],
        "cli": [f"{_PACKAGE}.commands.get_commands"],
        "config": {
            "lancerefs": {
                "description": "How the provider of Lance Refs behaves.",
                "options": {
                    "publish_lease": {
                        "description": "For how many seconds a publisher that says nothing is "
                        "taken to be alive; a retry after its death waits that long.",
                        "version_added": "0.1.0",
                        "type": "integer",
                        "example": None,
                        "default": "60",
                    },
                },
            }
        },
    }


def _modules(kind: str, *names: str) -> dict[str, Any]:
    return {
        "integration-name": _NAME,
        "python-modules": [f"{_PACKAGE}.{kind}.{name}" for name in names],
    }


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "lancerefs",
        "hook-name": _NAME,
        "hook-class-name": f"{_PACKAGE}.hooks.refs.LanceRefsHook",
        "ui-field-behaviour": {
            "hidden-fields": ["port", "schema"],
            "relabeling": {
                "host": "Root URI",
                "login": "AWS access key id",
                "password": "AWS secret access key",
            },
            "placeholders": {"host": "s3://bucket/prefix or /a/folder"},
        },
        "conn-fields": {
            "endpoint": _field("S3 endpoint", "Where it is not Amazon's own."),
            "region": _field("Region", "The bucket's region."),
            "session_token": _field("Session token", "Of temporary keys.", format="password"),
            "aws_conn_id": _field("AWS connection", "A connection to borrow keys from."),
            "allow_http": _flag("Allow HTTP", "Reach the endpoint without TLS."),
            "virtual_hosted_style_request": _flag(
                "Virtual hosted style", "Put the bucket into the host name."
            ),
        },
    }


def _field(label: str, description: str, **schema: str) -> dict[str, Any]:
    return {
        "label": label,
        "description": description,
        "schema": {"type": ["string", "null"], **schema},
    }


def _flag(label: str, description: str) -> dict[str, Any]:
    return {
        "label": label,
        "description": description,
        "schema": {"type": ["boolean", "null"]},
    }
