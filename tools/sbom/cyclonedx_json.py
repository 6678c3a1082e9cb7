"""Writes and checks a bill of materials as CycloneDX 1.6 in JSON: the only module that knows the library.

The same bill gives the same bytes everywhere: no time is in it unless SOURCE_DATE_EPOCH names one
(reproducible-builds.org), and its serial number is derived from the rest.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import TYPE_CHECKING, Any

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

if TYPE_CHECKING:
    from tools.sbom.package import Bill, Package, Properties, Subject

_SERIAL_NUMBERS = uuid.UUID("1d4e1c8b-5f0e-5a5c-9d55-2a0c0f5c7a11")
"""Namespace of our serial numbers (RFC 9562, version 5): any constant does."""
_NO_SERIAL = uuid.UUID(int=0)
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
# The library's class decorator, typed as a union of its mixins, hides the classes' own signatures from type checkers.
_Bom: Any = Bom
_BomMetaData: Any = BomMetaData
_Component: Any = Component
_Property: Any = Property
_KINDS = {"container": ComponentType.CONTAINER, "application": ComponentType.APPLICATION}


def bill_text(bill: Bill, source_date: dt.datetime | None = None) -> str:
    """Return a bill as the text of a CycloneDX file.

    Args:
        bill: what it lists.
        source_date: the time that the file states; None: none.
    """
    subject = _subject(bill.subject)
    components = [_component(package) for package in bill.packages]
    metadata = _BomMetaData(component=subject, timestamp=source_date or _EPOCH)
    bom = _Bom(serial_number=_NO_SERIAL, metadata=metadata, components=components)
    bom.register_dependency(subject, components)
    document: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["serialNumber"]
    if source_date is None:
        del document["metadata"]["timestamp"]  # the library always writes one
    serial = uuid.uuid5(_SERIAL_NUMBERS, json.dumps(document, sort_keys=True))
    return json.dumps(document | {"serialNumber": serial.urn}, sort_keys=True, indent=2) + "\n"


def first_problem(text: str) -> str | None:
    """Return the first fault of a CycloneDX file by the format's strict JSON Schema; None if there is none."""
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return None if problem is None else str(problem)


def _subject(subject: Subject) -> object:
    return _Component(
        name=subject.name,
        type=_KINDS[subject.kind],
        version=subject.version,
        bom_ref=f"{subject.name}:{subject.version}",
        properties=_properties(subject.properties),
    )


def _component(package: Package) -> object:
    url = package_url(package)
    return _Component(
        name=package.name,
        type=ComponentType.LIBRARY,
        version=package.version,
        bom_ref=url.to_string(),
        purl=url,
        properties=_properties(package.properties),
    )


def package_url(package: Package) -> PackageURL:
    """Return a package's URL (package-url/purl-spec): a Go module's path is namespace and name, Debian's vendor one."""
    namespace, _, name = package.name.rpartition("/")
    if package.kind == "deb":
        namespace = "debian"
    return PackageURL(
        type=package.kind,
        namespace=namespace or None,
        name=name,
        version=package.version,
        qualifiers=dict(package.qualifiers),
    )


def _properties(properties: Properties) -> list[object]:
    return [_Property(name=name, value=value) for name, value in properties]
