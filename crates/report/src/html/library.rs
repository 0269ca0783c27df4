//! The plotting library, without what no plot of a report needs: kinds of traces on maps, in space,
//! of shares. Of 4.7 MB of script 1.0 MB remain, and a reader's browser starts it in a third of the
//! time.
//!
//! The bundle that the `plotly` crate carries is written by esbuild: a sequence of modules `var
//! NAME=WRAP((exports,module)=>{…});`, each run when its name is first called, and the last
//! registers kinds of traces. Kept are the modules that can be called from there once only the
//! kinds in [`TRACES`] are registered. A bundle of another make is kept whole.
//!
//! `build.rs` runs it, so that the binary holds the result alone.
//!
//! Whether what remains draws is tested in a browser alone (`tests/browser`), which a plain `cargo
//! test` leaves out: after an upgrade of the bundle, `scripts/test` says whether the page works.

use std::collections::{BTreeMap, BTreeSet};

/// Kinds of traces that pictures are made of, beside `scatter`, which the library's core has.
const TRACES: [&str; 2] = ["bar", "heatmap"];

/// How the bundle defines the function that makes a module of what it is given, after its name.
const WRAP: &str = "=(e,t)=>()=>(t||e((t={exports:{}}).exports,t),t.exports)";

/// The like for a module of the newer kind, whose names stand beside it.
const WRAP_NEW: &str = "=(e,t)=>()=>(e&&(t=e(e=0)),t)";

/// Bytes that a module has at most which only hands another one on.
const SHORT: usize = 200;

/// A module and what stands between it and the next one.
struct Module<'bundle> {
    name: &'bundle str,
    text: &'bundle str,
}

/// The bundle with the modules that are needed; `None` if it is not made as described above.
pub(crate) fn reduced(bundle: &str) -> Option<String> {
    let (modules, start, end) = modules(bundle)?;
    let by_name: BTreeMap<&str, &str> = modules.iter().map(|of| (of.name, of.text)).collect();
    let root = modules.last()?;
    let (before, rest) = root.text.split_once(".register([")?;
    let (kinds, after) = rest.split_once("])")?;
    let kinds: Vec<&str> = kinds
        .split(',')
        .filter(|call| {
            kind(call.trim_end_matches("()"), &by_name).is_some_and(|kind| TRACES.contains(&kind))
        })
        .collect();
    if kinds.len() != TRACES.len() {
        return None;
    }
    let last = format!("{before}.register([{}]){after}", kinds.join(","));

    // What stands beside modules may be called from anywhere.
    let newer = bundle.split_once(WRAP_NEW);
    let newer = newer.map(|(before, _)| format!("={}(", trailing_name(before)));
    let has_newer = |text: &str| newer.as_ref().is_some_and(|newer| text.contains(newer));
    let is_alone = |text: &str| text.ends_with("});") && !has_newer(text);
    let mut texts = vec![last.as_str()];
    let mut kept: BTreeSet<&str> = BTreeSet::new();
    for module in modules.iter().filter(|module| !is_alone(module.text)) {
        kept.insert(module.name);
        texts.push(module.text);
    }
    while let Some(text) = texts.pop() {
        for name in called(text) {
            if let Some((name, text)) = by_name.get_key_value(name)
                && kept.insert(name)
            {
                texts.push(text);
            }
        }
    }
    let kept =
        modules.iter().filter(|module| module.name != root.name && kept.contains(module.name));
    let mut script = bundle[..start].to_owned();
    script.extend(kept.map(|module| module.text));
    script.push_str(&last);
    script.push_str(&bundle[end..]);
    Some(script)
}

/// Modules in their order, and where the first starts and the last ends.
fn modules(bundle: &str) -> Option<(Vec<Module<'_>>, usize, usize)> {
    let (before, _) = bundle.split_once(WRAP)?;
    let wrap = trailing_name(before);
    let opening = format!("={wrap}(");
    let starts: Vec<(usize, &str)> = bundle
        .match_indices(&opening)
        .filter_map(|(at, _)| {
            let name = trailing_name(&bundle[..at]);
            let before = bundle[..at - name.len()].strip_suffix("var ")?;
            before.ends_with([';', '}']).then_some((before.len(), name))
        })
        .collect();
    let (&(first, _), &(last, root)) = (starts.first()?, starts.last()?);
    let end = last + bundle[last..].find(&format!("return {root}();"))?;
    let ends = starts.iter().skip(1).map(|(start, _)| *start);
    let modules = starts.iter().zip(ends.chain([end]));
    let modules = modules.map(|((start, name), end)| Module { name, text: &bundle[*start..end] });
    Some((modules.collect(), first, end))
}

/// The kind of trace that a module registers, itself or by handing on another.
fn kind<'bundle>(name: &str, modules: &BTreeMap<&str, &'bundle str>) -> Option<&'bundle str> {
    let text = modules.get(name)?;
    let handed = text.split_once("exports=").filter(|_| text.len() < SHORT);
    let handed = handed.and_then(|(_, after)| after.split_once("()"));
    let text = handed.and_then(|(name, _)| modules.get(name)).unwrap_or(text);
    let (_, after) = text.split_once("moduleType:\"trace\",name:\"")?;
    after.split_once('"').map(|(kind, _)| kind)
}

/// Names that are called without arguments, as modules are.
fn called(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("()").map(|(at, _)| trailing_name(&text[..at]))
}

fn trailing_name(text: &str) -> &str {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$';
    &text[text.trim_end_matches(is_name).len()..]
}

#[cfg(test)]
mod tests {
    use super::super::{LIBRARY, packed};
    use super::{WRAP, modules, reduced};

    fn bundle(modules: &str) -> String {
        format!("\"use strict\";var P=(()=>{{var w{WRAP};{modules}return R();}})();")
    }

    #[test]
    fn what_nothing_kept_calls_is_left_out() {
        let whole = bundle(
            "var A=w((e,m)=>{m.exports=B()});var B=w((e,m)=>{m.exports={moduleType:\"trace\",name:\"bar\",x:C()}});\
             var C=w((e,m)=>{m.exports=1});var H=w((e,m)=>{m.exports={moduleType:\"trace\",name:\"heatmap\"}});\
             var G=w((e,m)=>{m.exports={moduleType:\"trace\",name:\"map\",x:D()}});var D=w((e,m)=>{});\
             var E=w((e,m)=>{});function f(){}var R=w((e,m)=>{C().register([A(),G(),H()])});",
        );
        let small = reduced(&whole).unwrap();
        for kept in [
            "var A=",
            "var B=",
            "var C=",
            "var H=",
            "var E=",
            "function f",
            "register([A(),H()])",
            "return R();",
        ] {
            assert!(small.contains(kept), "{kept}: {small}");
        }
        for left in ["var G=", "var D=", "G()"] {
            assert!(!small.contains(left), "{left}: {small}");
        }
    }

    #[test]
    fn a_bundle_of_another_make_is_not_cut() {
        assert!(reduced("var Plotly = {};").is_none());
        let without_heatmap = bundle(
            "var A=w((e,m)=>{m.exports={moduleType:\"trace\",name:\"bar\"}});\
             var R=w((e,m)=>{c.register([A()])});",
        );
        assert!(reduced(&without_heatmap).is_none());
    }

    #[test]
    fn the_library_that_is_built_in_is_cut() {
        let small = packed::unpack(&packed::letters(LIBRARY));
        assert!(small.contains("plotly.js v"));
        assert!((500_000..1_500_000).contains(&small.len()), "{}", small.len());
        let (modules, ..) = modules(&small).unwrap();
        assert!(modules.len() > 200, "{}", modules.len());
        for (kind, is_kept) in [
            ("scatter", true),
            ("bar", true),
            ("heatmap", true),
            ("pie", false),
            ("scatter3d", false),
        ] {
            let name = format!("moduleType:\"trace\",name:\"{kind}\"");
            assert_eq!(small.contains(&name), is_kept, "{kind}");
        }
        assert!(!small.contains("</script"));
        assert!(small.contains("Copyright"), "licences stay");
    }
}
