"""Detection of secrets in texts: by a known format, by their name, or by a random value under such a name."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, cast

import yaml

from policies.values import Value, label, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FORMATS = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"
    r"|\bLTAI[0-9A-Za-z]{12,}\b"  # access keys of Alibaba Cloud
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # and of AWS
    r"|\bgh[pousr]_[0-9A-Za-z]{36}\b|\bgithub_pat_[0-9A-Za-z_]{50,}"  # tokens of GitHub
    r"|\bglpat-[0-9A-Za-z_-]{20,}|\bnpm_[0-9A-Za-z]{36}\b|\bpypi-AgE[0-9A-Za-z_-]{10,}"  # GitLab, npm, PyPI
    r"|\bhf_[0-9A-Za-z]{30,}\b"  # Hugging Face
    r"|\bsk-(?:ant-|proj-|svcacct-)?[0-9A-Za-z_-]{32,}|\b[rs]k_live_[0-9A-Za-z]{20,}"  # OpenAI, Anthropic, Stripe
    r"|\bxox[abeoprs]-[0-9A-Za-z-]{10,}|\bhooks\.slack\.com/services/T\w+/B\w+/\w+"  # Slack
    r"|\bopen\.feishu\.cn/open-apis/bot/v2/hook/[\w-]+|\bopen\.larksuite\.com/open-apis/bot/v2/hook/[\w-]+"  # Feishu
    r"|\bAIza[0-9A-Za-z_-]{35}|\bnvapi-[0-9A-Za-z_-]{40,}|\bhvs\.[0-9A-Za-z_-]{20,}"  # Google, NVIDIA, Vault
    r"|\bAccountKey=[0-9A-Za-z+/]{40,}"  # Azure
    r"|\beyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}"  # signed JSON Web Tokens (RFC 7519)
    r"|://[^\s/:@$]*:[^\s/:@${<]+@"  # a password in a URL
)
"""Formats as their issuers publish them for scanners."""
_WORDS_OF_A_COMMAND = r"""(?:[^|;&\n'"]|&(?![&\s])|'[^'\n]*'|"[^"\n]*"){0,500}?"""
"""Rest of a command up to the next one of its line; as little as possible."""
_NAMED = re.compile(
    r"(?:\b(?:Bearer|Basic)\s+|\bX-[\w-]*(?:Key|Secret|Token):\s*|[?&]\w*(?:key|secret|sig|token)="
    rf"|\b(?:wandb|comet)\s+login\b{_WORDS_OF_A_COMMAND}\s['\"]?|\blogin\(\s*\\?['\"])"
    r"([0-9A-Za-z+/._~=-]{16,})",
    re.IGNORECASE,
)
"""In a header of HTTP, in an address's query, such as those of webhooks, and as the only argument of a login."""
_HEADER = re.compile(
    r"""(?:-H|--header)[\s=]*['"]?([A-Za-z][\w-]*):\s*(?:(?:Bearer|Basic|token)\s+)?([^\s'"{]+)""", re.IGNORECASE
)
"""Option of curl and others for a header of HTTP."""
_WITH_SETTINGS = r"aliyun|aws|conda|dvc|gcloud|git|kaggle|ngc|npm|ossutil\d*|pip|poetry|rclone|s3cmd"
"""Programs with a command that writes a setting, by its name and its value."""
_LITERAL = r"""\s*=?\s*['"]?[^\s$'"`{<%-]"""
"""Beginning of a value that is no reference."""
_OF_A_COMMAND = re.compile(
    "|".join(
        rf"\b(?:{programs})\b{_WORDS_OF_A_COMMAND}\s(?:{options}){_LITERAL}"
        for programs, options in (
            ("sshpass", "-p"),
            (r"mysql\w*|mariadb[\w-]*", r"-p(?!\s)"),
            ("redis-cli", "-a|--pass"),
            (r"mongo\w*|(?:docker|podman|nerdctl|buildah|skopeo|crane|oras|az|helm\s+registry)\s+login", "-p"),
            ("(?:un)?zip", "-P"),
            (r"7z[arz]?", r"-p(?!\s)"),
            ("openssl", r"(?:-pass(?:in|out)?\s+)?['\"]?pass:"),
            (r"ossutil\d*\s+config", "-k"),
            (r"kaggle\s+config\s+set", r"-n\s+key\s+-v"),
            (r"mc\s+alias\s+set", r"\S+\s+\S+\s+[^\s$'\"]+(?=\s)"),
            (r"machine\s+\S+\s+login", r"\S+\s+password(?=\s)"),
            (
                rf"(?:{_WITH_SETTINGS})\s+(?:\w+\s+)?(?:config|configure|modify)",
                r"[\w.-]*(?:passwd|password|secret_?access_?key|api[_-]?key|token)(?=\s)",
            ),
        )
    )
    + rf"|\bcurl\b{_WORDS_OF_A_COMMAND}\s(?:-[A-Za-z]*u|--user)[\s=]*['\"]?[^\s:$'\"]+:[^\s$'\"]"
    + r"|\b(?:echo|printf)\s[^|;&$`\n]{1,500}\|[^|;&\n]{0,500}"
    + r"(?:\s--(?:password|token)-stdin|\s--with-token|\bsudo\s+(?:-\w\s+)*-S)\b"
)
"""Options without a name of their own that hold a password, and one that a program reads."""
_IN_CODE = re.compile(
    r"""(?P<call>\b(?:setdefault|putenv|setenv)\(\s*)?\\?["'](?P<name>[A-Za-z_][\w.-]*)\\?["']\s*"""
    r"""(?P<mark>\]\s*=|:|,)\s*[rbu]?\\?["'](?P<text>[^"'\\\n]*)\\?["']"""
)
"""An entry of a mapping, such as os.environ, that gets a text."""

_REFERENCE = re.compile(
    r"\$\w+|\$[({].*|%\(.*|%\w+%|`.*`|\{\{.*|<[^<>]*>|\[\w+\]"  # of Kubernetes, of a shell or of a template
    r"|@?(?:~|\.{1,2})?(?:/[\w.@-]+)+/?"  # a path
    r"|[\w./-]+\.(?:cfg|conf|crt|env|ini|jks|json|key|p12|pem|toml|txt|ya?ml)"  # a file
    r"|[a-z][a-z0-9+.-]*:(?://)?[\w./#?&=@-]*/[\w./#?&=@-]*"  # an address
    r"|\*+|x{3,}|redacted",
    re.IGNORECASE | re.DOTALL,
)
_SWITCH = re.compile(r"true|false|yes|no|on|off|none|null|nil|optional|required|0|1", re.IGNORECASE)
_NAME_OF_AN_OBJECT = re.compile(r"[a-z]+(?:[-/][a-z]+)+")
_NAME_OF_A_KEY = re.compile(r"(?:[a-z]+[-_.])*(?:key|password|token)")
"""Name of an entry of a Secret, as in Helm's `secretKey: password`."""
_NUMBER = re.compile(r"-?\d{1,7}(?:\.\d+)?[km]?|\\\w", re.IGNORECASE)

_PASSWORDS = frozenset({"passcode", "passphrase", "passwd", "password", "pw", "pwd"})
_OBJECTS = frozenset({"credential", "credentials", "creds", "secret", "secrets"})
_PAIRS = frozenset(
    f"{kind}{key}"
    for kind in ("access", "account", "api", "encryption", "master", "private", "secret", "signing")
    for key in ("key", "keysecret")
) | {"accesskeyid"}
_HINTS = frozenset({"auth", "authorization", "jwt", "key", "pass", "salt", "token", *_PASSWORDS, *_OBJECTS})
_NOT_SECRET = frozenset({"algorithm", "digest", "hash", "fingerprint", "public", "pub", "revision", "sha", "url"})
_OF_MODELS = re.compile(
    "audio|batch|begin|bos|cls|data|decoder|encoder|end|eod|eol|eom|eos|eot|fill|fim|first|image|instruction|last|mask"
    "|max|middle|min|n|new|newline|next|num|pad|padding|per|prefix|prompt|sep|separator|special|start|stop|suffix"
    "|system|target|text|think|tool|unk|unknown|user|video|vision|vocab|word"
)
"""Words before `token` in names of a language model's tokens, such as EOS_TOKEN, and of their numbers."""
_OF_PASSES = re.compile("backward|dry|final|first|forward|last|max|min|multi|num|one|per|second|single|third|two")
"""Words before `pass` where that is a round, not a password."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_RANDOM_LENGTH, _RANDOM_BITS = 12, 3.0
"""Length from which a text can look random, and the fewest bits of entropy per character that do."""
_RANDOM_PART, _RANDOM_RUN = 8, 3.3
"""Length of a part without signs that can look random, and the mean length of its words and numbers from which it is
readable, such as imagenet1k: in random hexadecimal digits it is 2."""

_CODE = (".c", ".cc", ".go", ".js", ".lua", ".md", ".py", ".rs", ".ts", ".tsx")
_YAML = (".cfg", ".conf", ".yaml", ".yml")
_SETTINGS = (".cnf", ".env", ".ini", ".properties")
_CREDENTIAL_FILES = frozenset({".git-credentials", ".htpasswd", ".netrc", ".pgpass"})
_ASSIGNMENT = re.compile(
    r"""^[^\S\n]*(?:export[^\S\n]+|-[^\S\n]+|[^\s:=]*[:/])?["']?([A-Za-z_][\w.-]*)["']?[^\S\n]*[:=][^\S\n]*"""
    r"""(?:(["'])([^"'\n]*)\2|([^\s"',;(){}\[\]][^\n]*?))[^\S\n]*[,;]?[^\S\n]*(?:#.*)?$""",
    re.MULTILINE,
)
_ELEMENT = re.compile(r"<([\w.-]+)>([^<>]+)</\1>")
_PART_OF_CODE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*[^\w\s].*|[A-Za-z_]+(?:\.[A-Za-z_]+)*")
_IN_A_SHELL = re.compile(
    r"""(?:(?:^|[\s;&|("']|--?)([A-Za-z][\w.-]*)=|--([\w.-]+)\s+(?!-))"""
    r"""("[^"]*"|'[^']*'|`[^`]*`|\$\([^)]*\)|[^\s"'`;&|)]+(?:\[[^\]]*\]|\([^)]*\))?)"""
)
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[].*", re.DOTALL)
_OPTION = re.compile(r"--?([\w.-]+)(?:=(.*))?", re.DOTALL)
_LARGEST_DOCUMENT = 100_000
"""Characters of a file up to which it is read as YAML, which takes a second for ten times as many."""


def is_secret(name: str, text: str) -> bool:
    """Whether a text is a secret; references, paths, switches, and tokens of language models are none."""
    if has_known_format(text):
        return True
    if not text or _SWITCH.fullmatch(text) or _is_reference(text):
        return False
    words = [word.lower() for word in _WORDS.findall(name)]
    while len(words) > 1 and (words[-1].isdigit() or len(words[-1]) == 1):
        words.pop()  # of PASSWORD_2 and TOKEN_A
    return bool(words) and (_names_secret(words, text) or (_hints(words) and looks_random(text)))


def has_known_format(text: str) -> bool:
    """Whether a text contains a key, a token or a password in a format that shows what it is."""
    return bool(_FORMATS.search(text)) or any(looks_random(token) for token in _NAMED.findall(text))


def looks_random(text: str) -> bool:
    """Whether a text is long, without spaces, of letters and digits mixed, and as varied as random ones (Shannon)."""
    if len(text) < _RANDOM_LENGTH or re.search(r"\s", text):
        return False
    if not any(_is_mixed(part) for part in re.findall(rf"[0-9A-Za-z]{{{_RANDOM_PART},}}", text)):
        return False
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts) >= _RANDOM_BITS


def _is_mixed(part: str) -> bool:
    runs = _WORDS.findall(part)
    return not part.isdigit() and not part.isalpha() and len(part) / len(runs) < _RANDOM_RUN


def _is_reference(text: str) -> bool:
    if not _REFERENCE.fullmatch(text):
        return False
    # Base64 may begin with a slash, but has no short part between two.
    return not (text.startswith("/") and all(looks_random(part) for part in text.split("/") if part))


def _names_secret(words: Sequence[str], text: str) -> bool:
    """Whether whatever has a name is a secret: by the name's end, and for words of several meanings by the text."""
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if before == "empty":  # ALLOW_EMPTY_PASSWORD
        return False
    if last in _PASSWORDS or last.endswith(("password", "passwd", "passphrase", "requirepass")):
        return True
    if any("".join(words[-count:]) in _PAIRS for count in (1, 2, 3)):
        return not _NAME_OF_A_KEY.fullmatch(text)
    if last in _OBJECTS:
        return not _NAME_OF_AN_OBJECT.fullmatch(text)
    if last == "token":
        names = (_NUMBER, _NAME_OF_AN_OBJECT, _NAME_OF_A_KEY)
        return not _OF_MODELS.fullmatch(before) and not any(each.fullmatch(text) for each in names)
    return last == "pass" and not _OF_PASSES.fullmatch(before) and not _NUMBER.fullmatch(text)


def _hints(words: Sequence[str]) -> bool:
    return bool(_HINTS & {*words}) and not _NOT_SECRET & {*words} and words[-1] != "id"


def file_has_secret(name: str, text: str) -> bool:
    """Whether a file holds a secret, as its whole text or as a value of JSON, YAML, settings or code."""
    if is_secret(name, text) or _OF_A_COMMAND.search(text):
        return True
    if name in _CREDENTIAL_FILES:
        return bool(text.strip())
    document = _document(name, text)
    if document is not None:
        return any(is_secret(key, value) or has_known_format(value) for key, value in _leaves("", document))
    is_code, is_settings = name.lower().endswith(_CODE), name.lower().endswith(_SETTINGS)
    assigned = (
        (key, quoted if quote else bare)
        for key, quote, quoted, bare in _ASSIGNMENT.findall(text)
        # Words without quotes may be names or calls of a program.
        if quote or is_settings or not (is_code or _PART_OF_CODE.fullmatch(bare))
    )
    return any(is_secret(key, value) for key, value in (*assigned, *_ELEMENT.findall(text), *_assigned_in_code(text)))


def binary_has_secret(text: str) -> bool:
    """Whether what base64 encodes contains a secret in a known format."""
    try:
        return has_known_format(base64.b64decode(text, validate=True).decode("latin-1"))
    except (binascii.Error, ValueError):  # the API server says so itself
        return False


def _document(name: str, text: str) -> Value:
    """Return the nested content of a file that is JSON or YAML; None for anything else."""
    try:
        document = plain(json.loads(text))
    except ValueError:
        if len(text) > _LARGEST_DOCUMENT or ("." in name and not name.endswith(_YAML)):
            return None
        try:
            document = cast("Value", list(yaml.load_all(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))))
        except yaml.YAMLError:
            return None
    leaves = list(_leaves("", document))
    return document if any(key for key, _ in leaves) else None


def _leaves(name: str, value: Value) -> Iterator[tuple[str, str]]:
    """Yield all texts and numbers of a document with the key of each."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):  # of a variable, as in the settings of a chart
            yield from _leaves(label(value["name"]), value.get("value"))
        for key, item in value.items():
            yield from _leaves(str(key), item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(name, item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield name, str(value)


def argument_has_secret(text: str, following: str) -> bool:
    """Whether an argument is a secret, by itself, by its name, or by the name and the argument that follows."""
    option = _OPTION.fullmatch(text)
    if option and not re.search(r"\s", text):
        if option[2] is None:
            return not following.startswith("-") and is_secret(option[1], following)
        if is_secret(option[1], option[2]):
            return True
    return line_has_secret(text)


def line_has_secret(text: str) -> bool:
    """Whether a command line or a variable that holds settings or options contains a secret."""
    if _OF_A_COMMAND.search(text) or has_known_format(text):
        return True
    return any(is_secret(name, value) for name, value in (*_assigned_in_a_shell(text), *_assigned_in_code(text)))


def _assigned_in_code(text: str) -> Iterator[tuple[str, str]]:
    """Yield the texts that code or JSON in a text gives to entries of mappings."""
    for match in _IN_CODE.finditer(text):
        if match["call"] or match["mark"] != ",":
            yield match["name"], match["text"]


def _assigned_in_a_shell(text: str) -> Iterator[tuple[str, str]]:
    """Yield the variables and options of a command line, or of a program in one, without its calls."""
    for name, value in _HEADER.findall(text):
        yield "token" if name.lower() == "authorization" else name, value
    for name, option, given in _IN_A_SHELL.findall(text):
        value = given.strip("\"'")
        yield from _assigned_in_a_shell(value)  # --set=db.password=…
        if not _CALL.fullmatch(value):
            yield name or option, value
