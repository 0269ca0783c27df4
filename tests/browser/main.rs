//! Reports in a real browser (Debian's chromium, headless).
