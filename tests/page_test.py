#!/usr/bin/env python3
"""The server's page in a browser: `make test-page` installs Debian's chromium and Playwright, and runs it.

    tests/page_test.py build/dspark [unittest arguments]
"""

import pathlib
import re
import shutil
import signal
import sys
import unittest

from playwright.sync_api import expect, sync_playwright

import serving

COMMAND = ""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serving.Server(COMMAND, "--enable-health-check", "--dspark-mode", "fixed:4")
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.server.__exit__()

    def setUp(self):
        self.open()

    def open(self, **options):
        self.page = self.browser.new_page(**options)
        self.addCleanup(self.page.close)
        self.errors, self.asked = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(f"http://127.0.0.1:{self.server.port}/")

    def tearDown(self):
        self.assertEqual(self.errors, [])
        for url in self.asked:  # it works without any network
            self.assertRegex(url, rf"^(http://127\.0\.0\.1:{self.server.port}/|data:)")

    def ask(self, text):
        self.page.get_by_label("Message").fill(text)
        self.page.keyboard.press("Enter")

    def test_chat_shows_which_tokens_were_guessed(self):
        self.page.get_by_label("Tokens", exact=True).fill("60")
        self.ask("abc abc abc abc abc abc")
        speed = self.page.locator(".message.assistant .speed")
        expect(speed).to_contain_text("a second")
        drafted = int(re.search(r"(\d+) were guessed", speed.inner_text()).group(1))
        self.assertGreater(drafted, 0)
        spans = self.page.locator(".message.assistant .token.drafted").count()
        self.assertTrue(0 < spans <= drafted)  # a token may show nothing
        background = "e => getComputedStyle(e).backgroundColor"
        one, other = (self.page.locator(f".message.assistant .token{kind}").first.evaluate(background)
                      for kind in (".drafted", ":not(.drafted)"))
        self.assertNotEqual(one, other)

    def test_both_speeds_and_the_same_tokens(self):
        self.page.get_by_label("Tokens", exact=True).fill("30")
        self.page.get_by_label("compare with guessing off").check()
        self.ask("Hello")
        expect(self.page.locator(".message.note")).to_contain_text("The tokens are identical")
        expect(self.page.locator(".message.note")).to_contain_text(re.compile(r"With guesses [\d.]+ .* without [\d.]+"))
        expect(self.page.locator(".message.assistant").nth(1).locator(".drafted")).to_have_count(0)

    def test_a_refused_request_is_told(self):
        self.page.get_by_label("Tokens", exact=True).evaluate("e => e.removeAttribute('max')")
        self.ask("x" * 5000)
        expect(self.page.locator(".message.error")).to_contain_text("context")
        self.errors = [error for error in self.errors if "400" not in error]

    def test_an_answer_can_be_stopped(self):
        self.server.process.send_signal(signal.SIGSTOP)  # else it would be done before anybody can press anything
        self.ask("Hello")
        self.page.get_by_role("button", name="Stop").click()
        expect(self.page.get_by_role("button", name="Send")).to_be_enabled()
        expect(self.page.locator(".message.error")).to_contain_text("Stopped.")
        self.server.process.send_signal(signal.SIGCONT)
        self.server.wait_until_idle()

    def test_live_charts_move(self):
        self.page.get_by_role("tab", name="Live").click()
        for _ in range(4):
            self.server.tokens(max_tokens=100, ignore_eos=True)
            self.page.wait_for_timeout(600)
        for chart in ("throughput", "user", "acceptance", "cache", "step", "running"):
            expect(self.page.locator(f"#chart-{chart}")).not_to_have_text("–")
        self.assertGreater(self.page.locator("#charts polyline[points*=' ']").count(), 3)
        expect(self.page.locator("#health")).to_have_text("ok")

    def test_configuration_is_changed_and_taken_back(self):
        self.page.get_by_role("tab", name="Configuration").click()
        field = self.page.get_by_label("step_budget")
        field.fill("77")
        self.page.get_by_role("button", name="Check").click()
        expect(self.page.locator("#config-state")).to_contain_text("Valid; 1 would change")
        self.page.get_by_role("button", name="Apply").click()
        expect(self.page.locator("#config-state")).to_contain_text("1 changed")
        expect(self.page.get_by_label("step_budget")).to_have_value("77")
        self.page.get_by_label("dspark_mode").fill("nonsense")
        self.page.get_by_role("button", name="Apply").click()
        expect(self.page.locator("#config-state")).to_contain_text("expected planned")
        self.page.get_by_role("button", name="Back to version 1").first.click()
        expect(self.page.get_by_label("step_budget")).to_have_value("0")
        self.page.get_by_label("only what can change now").uncheck()
        expect(self.page.locator("#settings")).to_contain_text("kv_memory")
        self.errors = [error for error in self.errors if "400" not in error]

    def test_the_keyboard_is_enough(self):
        self.page.keyboard.press("Tab")
        expect(self.page.locator(".skip")).to_be_focused()
        self.page.locator("#tab-chat").focus()
        for name in ("live", "config", "chat"):
            self.page.keyboard.press("ArrowRight")
            expect(self.page.locator(f"#tab-{name}")).to_be_focused()
            expect(self.page.locator(f"#view-{name}")).to_be_visible()
        seen = set()
        for _ in range(12):
            self.page.keyboard.press("Tab")
            seen.add(self.page.evaluate("document.activeElement.id"))
        self.assertLessEqual({"message", "temperature", "max-tokens", "seed", "speculate", "compare", "clear", "send"}, seen)

    def contrast(self, selector):
        """Of an element's text against what is behind it (WCAG 2)."""
        return self.page.locator(selector).first.evaluate("""e => {
          const light = (text) => { const c = text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
              .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; };
          let back = e; while (getComputedStyle(back).backgroundColor === "rgba(0, 0, 0, 0)") back = back.parentElement;
          const [a, b] = [light(getComputedStyle(e).color), light(getComputedStyle(back).backgroundColor)];
          return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }""")

    def test_readable_in_dark_and_light(self):
        backs = []
        for scheme in ("light", "dark"):
            self.open(color_scheme=scheme)
            for selector in ("h1", ".legend", ".legend .drafted", "#send", "#model", "#tab-live", "#theme"):
                self.assertGreater(self.contrast(selector), 4.5, (scheme, selector))
            backs.append(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        self.assertNotEqual(*backs)
        self.page.get_by_role("button", name="Theme").click()  # light, whatever the system has
        self.assertEqual(self.page.evaluate("getComputedStyle(document.body).backgroundColor"), backs[0])


if __name__ == "__main__":
    COMMAND = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
