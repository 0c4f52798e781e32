"""A secret is masked by its name in every syntax that logs, manifests and settings have."""

from __future__ import annotations

import itertools
import random

import pytest

from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.agent.masking.secret_names import is_secret_name
from gpuwatch.agent.masking.secret_phrases import masked_lines

NAMES = (
    "password", "db_password", "DB_PASSWORD", "MYSQL_ROOT_PASSWORD", "passwd", "passphrase", "secret",
    "client_secret", "clientSecret", "AWS_SECRET_ACCESS_KEY", "api_key", "apiKey", "ApiKey", "API_KEY",
    "X-Api-Key", "access_token", "accessToken", "HF_TOKEN", "KAGGLE_KEY", "SSHPASS", "WANDB_API_KEY",
    "PGPASSWORD", "MYSQL_PWD", "REDISCLI_AUTH",
    "private_key", "AZURE_STORAGE_KEY", "DD_API_KEY", "OPENAI_KEY",
    "credential", "auth_token", "encryption_key", "signingKey", "connectionPassword",
    "spring.datasource.password",
)  # fmt: skip
SYNTAXES = (
    "{n}={v}", "export {n}={v}", "{n} = {v}", "{n}: {v}", '{{"{n}": "{v}"}}', "{{'{n}': '{v}'}}",
    '{n}="{v}"', "{n}='{v}'", '{{\\"{n}\\": \\"{v}\\"}}', "Config({n}='{v}', x=1)",
    "https://x/?{n}={v}&a=1", "--{n} {v}", "--{n}={v}", '--{n} "{v}"', "['--{n}', '{v}']", '{n} = "{v}"',
    "{n} => {v}", "<{n}>{v}</{n}>", "<x:{n}>{v}</x:{n}>", '<{n} type="string">{v}</{n}>',
    "<{n}> {v} </{n}>", "<{n}><![CDATA[{v}]]></{n}>", '<user {n}="{v}"/>', '<add key="{n}" value="{v}"/>',
    "<property name='{n}' value='{v}' />", '<entry value="{v}" key="{n}"/>',
    "<property><name>{n}</name><value>{v}</value></property>", "<key>{n}</key><string>{v}</string>",
    "<name>{n}</name>\n<value>{v}</value>", "- name: {n}\n  value: {v}", '- name: {n}\n  value: "{v}"',
    '  "name": "{n}",\n  "value": "{v}"', "- {{name: {n}, value: {v}}}", "name: {n} value: {v}",
    '{{"name":"{n}","value":"{v}"}}', '{{"value": "{v}", "name": "{n}"}}',
    '{{"Name": "{n}", "Value": "{v}"}}', '{{\\"name\\":\\"{n}\\",\\"value\\":\\"{v}\\"}}',
    "{n}=SecretStr('{v}')", "(b'{n}', b'{v}')", "{n}: \u00a0{v}", "{n}\u00a0=\u00a0{v}",
    "&quot;{n}&quot;:&quot;{v}&quot;", "- name: {n}  # of the store\n  value: {v}",
    "- name: {n}\n\n  value: {v}", '"name": "{n}",\n"type": "string",\n"value": "{v}"',
    '{{"name": "{n}", "valueFrom": null, "value": "{v}"}}',
    '- name: {n}\n  # 1\n  # 2\n  # 3\n  # 4\n  type: string\n  value: {v}',
    "- ParameterKey: {n}\n  ParameterValue: {v}", "ParameterKey={n},ParameterValue={v}",
    "- name: {n}\n  value: |\n    {v}", '"name": "{n}",\n"value":\n"{v}"',
    '{{"key":"{n}","value":{{"stringValue":"{v}"}}}}',
    '"key": "{n}",\n"value": {{\n  "stringValue": "{v}"\n}}', "--set env[0].name={n},env[0].value={v}",
    '"{n}=two {v} words {v}"', "{n}: &t {v}", "{n}: !!str {v}", '"{n}": [\n  "{v}",\n  "{v}"\n]',
    "{n}:\n- {v}\n- {v}", '"{n}": {{\n  "value": "{v}"\n}}', "- env: {n}\n  val: {v}", "--{n} \\\n  {v} \\",
    'set {{\n  name  = "db.{n}"\n  value = "{v}"\n}}', '"name": "{n}",\n"secureValue": "{v}"',
    "{{Name:{n},Value:{v}}}", "{{Name:{n} Value:{v} ValueFrom:nil}}", "key={n} value={v}",
)  # fmt: skip
WORDS = (
    "api key: {v}", "API key is {v}", "api key = {v}", "your access token is {v}", "token is {v}",
    "Token: {v}",
    "the secret is '{v}'", "using api key {v}", "private key: {v}", "password is {v}", "auth key: {v}",
)  # fmt: skip
PHRASES = (
    "-u user:{} https://h", "{{'auth': ('u', '{}')}}", "echo {} | docker login --password-stdin",
    "pass\U0001d173word={}", "pass\u034fword: {}", "api\u200b_key = {}",
)  # fmt: skip
DRAWN = random.Random(14)
PLAIN = (
    "key: layer.weight",
    "token indices sequence length is longer than the maximum (730 > 512)",
    "tokens: 4096",
    "api key not set",
    "API key is not set",
    "api key: missing",
    "the access token is expired",
    "password is required",
    "<key>layer.weight</key>",
    "<tokens>4096</tokens>",
    "<password></password>",
    "<num_token>131072</num_token>",
    '<add key="LogLevel" value="Debug"/>',
    "- name: RANK\n  value: 12",
    "- name: DB_PASSWORD\n  valueFrom: x\nmodel:\n  value: llama3",
    '{"name": "DB_PASSWORD"},\n{"id": 1,\n"value": "llama3"}',
    "tokens:\n- llama3\n- qwen2",
    '"max_tokens=5 steps=7"',
    "- name: tokenizer\n  value: bert-base-uncased",
    '{"name": "token_count", "value": "4096"}',
    '{"name": "eos_token", "value": "<|endoftext|>"}',
    '{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}',
    "- name: DB_PASSWORD\n  value: $(FROM_SECRET)",
    "<property><name>mapreduce.job.name</name><value>abc</value></property>",
    "token is <eos>",
    "Using pad token: <|endoftext|>",
    "KAGGLE_KEY not found",
    "SSHPASS is unset",
    "sort_key=name",
    "tokens_per_second: 12345.6",
    "missing key: model.layers.0.attn.q_proj.weight",
    'Unexpected key(s) in state_dict: "module.fc.weight"',
    'it asks "password:" and then waits',
    'password = os.environ["DB_PASSWORD1"]',
    'token=os.getenv("HF_TOKEN1")',
    "token = self.tokens[self.position1]",
    "password: Optional[str] = None",
    "- name: RANK\n- name: DB_PASSWORD\n- name: STEP\n- name: LOSS\n  value: 12a",
    "at _ZN4c10d16ProcessGroupNCCL8WorkNCCL12checkTimeoutESt8optionalINSt6chrono8durationIlSt5ratio",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI32x32x4x1_SN_1LDSB0_APM1_ABV0_ACED0_AF0EM1_AF1EM1_AMAS3",
    "nvmlDeviceGetGpuFabricInfoV2 is missing in libnvidia-ml.so.535.104.05",
)


def drawn(length: int, alphabet: str) -> str:
    while True:
        value = "".join(DRAWN.choice(alphabet) for _ in range(length))
        if sum(each.isdigit() for each in value) > 3 and not value.isdigit():
            return value


VALUES = [
    "Zx9tQ4wLm27RkP",
    *(drawn(length, "0123456789abcdef") for length in (20, 32, 40)),
    *(drawn(length, "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789") for length in (16, 24)),
]


def without_secrets(text: str) -> str:
    """As the splitter and the links do it: each line by itself, then by the one above."""
    return "\n".join(masked_lines([masked(line) for line in text.split("\n")]))


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_every_secret_is_masked_in_this_syntax(syntax: str) -> None:
    texts = {(n, v): syntax.format(n=n, v=v) for n, v in itertools.product(NAMES, VALUES)}
    assert [text for (_, value), text in texts.items() if value in without_secrets(text)] == []


@pytest.mark.parametrize("phrase", WORDS)
def test_every_secret_that_a_sentence_states_is_masked(phrase: str) -> None:
    values = VALUES[:1] + VALUES[4:] if "using" in phrase else VALUES[1:]
    texts = {value: phrase.format(v=value) for value in values}
    assert [text for value, text in texts.items() if value in without_secrets(text)] == []


@pytest.mark.parametrize("value", ["hunter2", "correct horse 9", "p@ss-w0rd!"])
@pytest.mark.parametrize("name", ["password", "DB_PASSWORD", "admin.passwd"])
def test_a_short_password_is_masked_where_its_syntax_delimits_it(name: str, value: str) -> None:
    for syntax in SYNTAXES:
        if '"{v}"' in syntax or ">{v}<" in syntax or "[{v}]" in syntax:
            text = syntax.format(n=name, v=value)
            assert value not in without_secrets(text), text


@pytest.mark.parametrize("text", PLAIN)
def test_text_beside_it_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_masking_twice_is_masking_once() -> None:
    for syntax in (*SYNTAXES, *WORDS):
        once = without_secrets(syntax.format(n="DB_PASSWORD", v=VALUES[0]))
        assert without_secrets(once) == once


@pytest.mark.parametrize("name", ["forward_pass", "sort_key", "eos_token", "RANK", "tokenizer", "", "123"])
def test_such_a_name_is_not_that_of_a_secret(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_password_without_a_name_and_one_behind_unseen_characters(phrase: str) -> None:
    assert "s3cretValue" not in masked(phrase.format("s3cretValue"))


def test_a_user_and_group_in_numbers_stay() -> None:
    assert masked("docker run -u 1000:1000 https://h") == "docker run -u 1000:1000 https://h"


@pytest.mark.parametrize(
    "text",
    [
        "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44\uff1d{v}",
        "p\u0430ssw\u043erd={v}",
        "pass\u2060word={v}",
        "pass\u3164word={v}",
        "https://{v}{v}:x-oauth-basic@github.com/a/b",
        "https://{v}:x-oauth-basic@github.com/a/b",
        "openssl enc -aes-256-cbc -in a -k {v}",
        "datasource.pass={v}",
        "API_KEY_2={v}",
        "S3_KEY={v}",
    ],
)
def test_a_name_that_only_looks_different_hides_nothing(text: str) -> None:
    value = "hunter2Zx9tQ4w"
    assert value not in masked(text.format(v=value))


@pytest.mark.parametrize(
    ("text", "code"), [("otp: 482910", "482910"), ("PIN=9021", "9021"), ('"passcode": "77120"', "77120")]
)
def test_a_code_of_digits_is_masked(text: str, code: str) -> None:
    assert code not in masked(text)


@pytest.mark.parametrize(
    "text",
    ["pin: 4", "mapping=4821", "spin: 90210", "\u041f\u0440\u0438\u0432\u0435\u0442 key=9", "pinned=True"],
)
def test_what_is_no_code_stays(text: str) -> None:
    assert masked(text) == text
