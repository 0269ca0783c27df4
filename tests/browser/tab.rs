//! One page in a window of its own: opening it, asking it, pointing at it, and what it complained
//! of.

use crate::chromium::{Browser, PATIENCE};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Clone, Copy)]
pub struct Look {
    /// In CSS pixels.
    pub width: u32,
    /// In CSS pixels.
    pub height: u32,
    /// Whether the reader's system asks for dark pages.
    pub is_dark: bool,
    pub has_scripts: bool,
    /// Whether it is a phone's browser, which lays out by the viewport that the page asks for.
    pub is_phone: bool,
}

impl Look {
    pub const DESK: Look =
        Look { width: 1200, height: 900, is_dark: false, has_scripts: true, is_phone: false };
    pub const PHONE: Look = Look { width: 390, height: 844, is_phone: true, ..Look::DESK };
}

/// A page that is open; its window closes with it.
pub struct Tab {
    browser: Arc<Browser>,
    context: String,
    session: String,
    downloads: TempDir,
    has_scripts: bool,
}

impl Tab {
    /// Opens a page and waits until its plots can be drawn.
    #[track_caller]
    pub fn open(page: &Path, look: Look) -> Tab {
        let tab = Tab::empty(look);
        tab.call("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        tab.wait_for("the page to be loaded", "document.readyState === 'complete'");
        if look.has_scripts {
            tab.wait_for(
                "the page to be ready",
                "!document.getElementById('pictures') || window.plumb?.interactiveMs != null",
            );
        }
        tab
    }

    /// As [`Tab::open`], with every plot drawn; it is quiet.
    #[track_caller]
    pub fn drawn(page: &Path, look: Look) -> Tab {
        let tab = Tab::open(page, look);
        tab.draw_all();
        tab.is_quiet();
        tab
    }

    fn empty(look: Look) -> Tab {
        let browser = Browser::shared();
        let downloads = tempfile::tempdir().unwrap();
        let of = |answer: Value, name: &str| answer[name].as_str().unwrap().to_owned();
        let context = browser.call(None, "Target.createBrowserContext", json!({}));
        let context = of(context, "browserContextId");
        let target = browser.call(
            None,
            "Target.createTarget",
            json!({"url": "about:blank", "browserContextId": context, "newWindow": true}),
        );
        let session = browser.call(
            None,
            "Target.attachToTarget",
            json!({"targetId": of(target, "targetId"), "flatten": true}),
        );
        let tab = Tab {
            session: of(session, "sessionId"),
            browser,
            context,
            downloads,
            has_scripts: look.has_scripts,
        };
        tab.browser.call(
            None,
            "Browser.setDownloadBehavior",
            json!({"behavior": "allow", "browserContextId": tab.context, "eventsEnabled": true,
                "downloadPath": tab.downloads.path()}),
        );
        for domain in ["Page", "Runtime", "Log", "Network", "DOM", "Accessibility"] {
            tab.call(&format!("{domain}.enable"), json!({}));
        }
        // Workers and frames would ask on their own: none may come to be.
        tab.call(
            "Target.setAutoAttach",
            json!({"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true}),
        );
        tab.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
        tab.call("Emulation.setScriptExecutionDisabled", json!({"value": !look.has_scripts}));
        tab.look(look);
        tab
    }

    /// Sets how the page is looked at from now on.
    pub fn look(&self, look: Look) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": look.width, "height": look.height, "mobile": look.is_phone,
                "deviceScaleFactor": 1}),
        );
        let scheme = if look.is_dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
    }

    /// Asks the page's session.
    #[track_caller]
    pub fn call(&self, method: &str, params: Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    /// The value of an expression, awaited where scripts run; an exception fails the test.
    #[track_caller]
    pub fn eval(&self, expression: &str) -> Value {
        let mut answer = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "awaitPromise": self.has_scripts,
                "returnByValue": true}),
        );
        if let Some(thrown) = answer.get("exceptionDetails") {
            panic!("{expression}\nthrew {thrown}");
        }
        answer["result"]["value"].take()
    }

    /// As [`Tab::eval`], as the type that is expected.
    #[track_caller]
    pub fn get<T: serde::de::DeserializeOwned>(&self, expression: &str) -> T {
        let value = self.eval(expression);
        serde_json::from_value(value.clone())
            .unwrap_or_else(|error| panic!("{expression} is {value}: {error}"))
    }

    #[track_caller]
    pub fn count(&self, selector: &str) -> usize {
        self.get(&format!("document.querySelectorAll('{selector}').length"))
    }

    /// Fails unless an expression's list of texts, which says what is wrong, is empty.
    #[track_caller]
    pub fn none(&self, list: &str) {
        let found: Vec<String> = self.get(list);
        assert!(found.is_empty(), "{list}: {found:#?}");
    }

    /// Asks until an expression holds.
    #[track_caller]
    pub fn wait_for(&self, what: &str, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.eval(expression) != json!(true) {
            let complaints = self.complaints();
            assert!(Instant::now() < deadline, "waited in vain for {what}; {complaints:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Brings every plot near the window, one after another, until all are drawn.
    #[track_caller]
    pub fn draw_all(&self) {
        self.draw("document");
    }

    /// As [`Tab::draw_all`], the plots of a section alone.
    #[track_caller]
    pub fn draw_section(&self, id: &str) {
        self.draw(&format!("document.getElementById('{id}')"));
    }

    #[track_caller]
    fn draw(&self, within: &str) {
        self.eval(&format!(
            "{within}.querySelectorAll('details').forEach((folded) => {{ folded.open = true; }})"
        ));
        let plots: usize = self.get(&format!("{within}.querySelectorAll('figure.plot').length"));
        for plot in 0..plots {
            let plot = format!("{within}.querySelectorAll('figure.plot')[{plot}]");
            self.eval(&format!("{plot}.scrollIntoView({{block: 'center'}})"));
            self.wait_for(
                &format!("{plot} to be drawn"),
                &format!("{plot}.querySelector('.canvas > svg') !== null"),
            );
        }
    }

    /// Moves the pointer to a place in the window, in CSS pixels.
    pub fn point(&self, x: f64, y: f64) {
        self.mouse("mouseMoved", x, y, 0);
    }

    /// The middle of what an expression gives, brought into the window first.
    #[track_caller]
    pub fn place(&self, element: &str) -> (f64, f64) {
        self.eval(&format!("({element}).scrollIntoView({{block: 'center', inline: 'center'}})"));
        self.get(&format!(
            "(() => {{ const box = ({element}).getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ))
    }

    #[track_caller]
    pub fn click(&self, element: &str) {
        let (x, y) = self.place(element);
        self.point(x, y);
        self.mouse("mousePressed", x, y, 1);
        self.mouse("mouseReleased", x, y, 1);
    }

    /// Presses at a place, moves to another one, and lets go.
    pub fn drag(&self, from: (f64, f64), to: (f64, f64)) {
        self.point(from.0, from.1);
        self.mouse("mousePressed", from.0, from.1, 1);
        self.mouse("mouseMoved", to.0, to.1, 1);
        self.mouse("mouseReleased", to.0, to.1, 1);
    }

    pub fn double_click(&self, x: f64, y: f64) {
        for clicks in [1, 2] {
            self.mouse("mousePressed", x, y, clicks);
            self.mouse("mouseReleased", x, y, clicks);
        }
    }

    fn mouse(&self, kind: &str, x: f64, y: f64, clicks: u32) {
        let button = if clicks > 0 { "left" } else { "none" };
        self.call(
            "Input.dispatchMouseEvent",
            json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": clicks}),
        );
    }

    /// Presses a key by its name (`Tab`, `Enter`, `Space`), which may have a character.
    pub fn press(&self, key: &str) {
        let (code, number, text) = match key {
            "Tab" => ("Tab", 9, ""),
            "Enter" => ("Enter", 13, "\r"),
            "Space" => ("Space", 32, " "),
            _ => panic!("no key {key} is known here"),
        };
        let name = if key == "Space" { " " } else { key };
        let down = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        for kind in [down, "keyUp"] {
            let mut event = json!({"type": kind, "key": name, "code": code,
                "windowsVirtualKeyCode": number});
            if kind == "keyDown" {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// The next file that the page gives to its reader, once it is whole.
    #[track_caller]
    pub fn downloaded(&self) -> PathBuf {
        let is = |event: &Value, method: &str| event["method"] == method;
        let ours = |event: &Value| {
            let name = event["params"]["suggestedFilename"].as_str();
            name.map(|name| self.downloads.path().join(name))
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let events = self.browser.events("");
            let done = events.iter().filter(|event| {
                is(event, "Browser.downloadProgress") && event["params"]["state"] == "completed"
            });
            let done: Vec<&Value> = done.map(|event| &event["params"]["guid"]).collect();
            let file = events
                .iter()
                .filter(|event| is(event, "Browser.downloadWillBegin"))
                .filter(|event| done.contains(&&event["params"]["guid"]))
                .filter_map(ours)
                .find(|file| file.exists());
            if let Some(file) = file {
                return file;
            }
            assert!(Instant::now() < deadline, "no file of this page: {events:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What a page must not do: ask anybody for anything, write to the console, fail, open a
    /// worker, a frame or another window.
    pub fn complaints(&self) -> Vec<String> {
        let events = self.browser.events(&self.session);
        let complaint = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str()?;
                    let is_page = params["type"] == "Document" && url.starts_with("file://");
                    let stays = ["data:", "blob:", "about:"].iter().any(|own| url.starts_with(own));
                    (!is_page && !stays).then(|| format!("asked for {url}"))
                }
                "Network.webSocketCreated" | "Network.webTransportCreated" => {
                    Some(format!("opened {}", params["url"]))
                }
                "Runtime.exceptionThrown" => Some(format!("threw {}", params["exceptionDetails"])),
                "Runtime.consoleAPICalled" => Some(format!("wrote {}", params["args"])),
                "Log.entryAdded" => Some(format!("logged {}", params["entry"])),
                "Target.attachedToTarget" => Some(format!("opened {}", params["targetInfo"])),
                "Page.windowOpen" => Some(format!("opened a window of {}", params["url"])),
                "Page.javascriptDialogOpening" => Some(format!("asked {}", params["message"])),
                _ => None,
            }
        };
        events.iter().filter_map(complaint).collect()
    }

    /// Fails if the page did what it must not.
    #[track_caller]
    pub fn is_quiet(&self) {
        if self.has_scripts {
            // What a page does at once it has done after two frames and an idle moment.
            self.eval(
                "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(\
                 () => setTimeout(done, 50))))",
            );
        }
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
}

/// Fails if a page is wider than a phone.
#[track_caller]
pub fn fits_a_phone(page: &Path) {
    let tab = Tab::drawn(page, Look::PHONE);
    let width: f64 = tab.get("document.scrollingElement.scrollWidth");
    assert!(width <= 390.0, "{width}");
}

impl Drop for Tab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let context = json!({"browserContextId": self.context});
            self.browser.call(None, "Target.disposeBrowserContext", context);
        }
    }
}
