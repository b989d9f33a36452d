"""Names as users and attackers choose them, and Hypothesis strategies for more of them."""

from typing import Final

from hypothesis import strategies as st

HOSTILE: Final = {
    "quotes": 'it\'s "quoted" `twice`',
    "commas": "a,b,,c",
    "parentheses": "f(x) = (((",
    "percent": "100%, %2C %25 %",
    "slashes": "team/a\\b//c",
    "emoji": "fraud 🕵️‍♀️ model 🚀",
    "right-to-left": "\u202e\u05de\u05d5\u05d3\u05dc \u200f\u0646\u0645\u0648\u0630\u062c",
    "newlines": "one\ntwo\r\n\tthree\x00",
    "html": "<script>alert(1)</script>&amp;<b>",
    "sql": "'; DROP TABLE aspects; --",
    "spaces": "  leading and trailing  ",
    "separators": "a\u2028b\u241fc\x85d",
    "urn": "urn:li:mlModel:(urn:li:dataPlatform:mlflow,x,PROD)",
    "template": "{experiment} {0} {{}}",
    "300 characters": "x" * 300,
    "300 wide characters": "模" * 300,
    "300 escapes": ",%" * 150,
}

names: Final = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from(list(",()%~. \n\u241f")),
    min_size=1,
    max_size=40,
)
"""Any text that UTF-8 can hold, rich in what URNs have to escape; short enough for a URN."""

long_names: Final = st.builds(lambda text, times: text * times, names, st.integers(1, 60))
