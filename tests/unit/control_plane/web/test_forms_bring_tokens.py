"""Every form that changes anything brings the session's token back."""

from __future__ import annotations

import re

from control_plane.server.web.page_renderer import HERE

# They begin and end the session itself.
WITHOUT = ("/signin", "/signout")


def test_each_form_that_posts_has_the_token_of_its_session() -> None:
    forms = [
        (path.name, line)
        for path in (HERE / "templates").glob("*.html")
        for line in path.read_text().splitlines()
        if 'method="post"' in line and not any(f'action="{each}"' in line for each in WITHOUT)
    ]
    assert len(forms) > 10
    for name, line in forms:
        posts = re.findall(r'<form [^>]*method="post".*?>(?={{ form_token\(\) }})', line)
        assert len(posts) == line.count('method="post"'), (name, line)
