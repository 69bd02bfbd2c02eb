#!/usr/bin/env bash
# Tests the server's page in Debian's chromium, driven by Playwright from PyPI in an environment of its own under
# ${XDG_CACHE_HOME:-~/.cache}/dspark-page. Usage: scripts/test-page.sh [unittest arguments]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install-packages.sh scripts/packages-page.txt
folder=${XDG_CACHE_HOME:-$HOME/.cache}/dspark-page
if ! "$folder/bin/python" -c "import playwright" 2>/dev/null; then
  python3 -m venv "$folder"
  "$folder/bin/python" -m pip install -q playwright
fi
exec "$folder/bin/python" tests/page_test.py build/dspark "$@"
