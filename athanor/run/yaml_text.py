"""YAML with scalars as plain text: YAML 1.1 would read 3.10 as 3.1, 4:3 as 243 and on as true."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping


class _TextLoader(yaml.BaseLoader):
    """Reads scalars as text, and refuses a key that occurs twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        repeated = next((key for key, _ in node.value if names.count(key.value) > 1), None)
        if repeated is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{repeated.value} is given twice", repeated.start_mark)
        return super().construct_mapping(node, deep=deep)


def read_yaml_text(option: str, file: str) -> Mapping[str, object]:
    """Return the content of a YAML file by its keys: text, lists and mappings.

    Args:
        option: The option that names the file.
        file: Its path.

    Raises:
        RefusalError: it cannot be read, is not YAML, or has no keys.
    """
    try:
        content: object = yaml.load(Path(file).read_bytes(), Loader=_TextLoader)  # noqa: S506 - it constructs text alone
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        said = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise RefusalError(option, file, f"cannot be read: {said}", "name a YAML file") from None
    if not isinstance(content, dict):
        raise RefusalError(option, file, "has no keys", "write a line `name: value` for each")
    return cast("dict[str, object]", content)
