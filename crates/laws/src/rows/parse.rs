//! Laws as rows of text. The build script reads them with this module too: an error in a row is one
//! of the build, with its line.
//!
//! - `NAME low likely high scale  reason | source` is a term of its section. A source that begins with `memory` says
//!   that none was looked up.
//! - `name = 2 way + lines TERM + 1[0.4..3] map` is a sum of terms, of other sums of its section and
//!   of what the law's own code gives, each times numbers, ranges of numbers and counts that the code
//!   gives.
//! - `alone TERM TERM` makes sums of single terms, by their names.
//! - `given way lines map` lists what the code gives to a section's sums; `[section]` begins one.
//! - `scale << relatives` lists the figures by which terms of a scale are learnt.

use std::collections::{BTreeMap, BTreeSet};

/// What a term's numbers count, and so what they depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// Cycles of kernel code on the reference core.
    Kernel,
    /// The same of code that versions leave alike: signal frames, the scheduler's switch.
    Steady,
    /// Cycles in it in which no instruction decides: copies, misses, flushes.
    Stall,
    /// Cycles of work on tasks and on pages, on the reference core.
    Tasks,
    /// The same on address spaces, which page tables decide.
    Spaces,
    /// The same of page faults.
    Pages,
    /// Cycles of kernel code on the reference core, which a guest takes like bare hardware.
    Plain,
    /// Cycles of a program.
    Core,
    Ns,
}

const SCALES: [(&str, Scale); 9] = [
    ("kernel", Scale::Kernel),
    ("steady", Scale::Steady),
    ("stall", Scale::Stall),
    ("tasks", Scale::Tasks),
    ("spaces", Scale::Spaces),
    ("pages", Scale::Pages),
    ("plain", Scale::Plain),
    ("core", Scale::Core),
    ("ns", Scale::Ns),
];

/// What is stated of a piece of work.
#[derive(Debug)]
pub struct Term {
    name: String,
    section: String,
    /// Least, likely and most, in the scale's unit.
    pub ends: [f64; 3],
    pub scale: Scale,
    pub reason: String,
    /// Whether a source was looked up.
    pub is_sourced: bool,
    line: usize,
}

/// What a sum adds.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Term(usize),
    /// What the law's code gives.
    Given(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Addend {
    /// How many times: least, likely and most.
    pub factor: [f64; 3],
    /// Counts that the law's code gives.
    pub counts: Vec<String>,
    pub part: Part,
}

/// Terms and sums by section.
#[derive(Debug, Default)]
pub struct Rows {
    pub terms: Vec<Term>,
    pub sums: BTreeMap<(String, String), Vec<Addend>>,
    /// What the terms of a scale are learnt from.
    pub relatives: BTreeMap<Scale, Vec<String>>,
    section: String,
    given: BTreeSet<String>,
}

impl Rows {
    /// The rows of a text. Errors: the line, and what is wrong in it.
    pub fn read(text: &str) -> Result<Rows, String> {
        let mut rows = Rows::default();
        for (nth, line) in text.lines().enumerate() {
            let read = rows.line(line.trim(), nth + 1);
            read.map_err(|why| format!("{}: {why}", nth + 1))?;
        }
        let used: BTreeSet<usize> = rows.sums.values().flatten().filter_map(Addend::term).collect();
        let unused = rows.terms.iter().enumerate().find(|(at, _)| !used.contains(at));
        match unused {
            Some((_, Term { name, line, .. })) => Err(format!("{line}: no sum has {name}")),
            None => Ok(rows),
        }
    }

    fn line(&mut self, line: &str, number: usize) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(section) = line.strip_prefix('[') {
            let section = section.strip_suffix(']').ok_or("a section is `[name]`")?;
            self.section = section.to_owned();
            self.given.clear();
        } else if let Some(names) = line.strip_prefix("given ") {
            self.given.extend(names.split_whitespace().map(str::to_owned));
        } else if let Some(names) = line.strip_prefix("alone ") {
            for name in names.split_whitespace() {
                self.sum(name, name)?;
            }
        } else if let Some((scale, relatives)) = line.split_once(" << ") {
            let relatives = relatives.split_whitespace().map(str::to_owned).collect();
            self.relatives.insert(scale_named(scale.trim())?, relatives);
        } else if let Some((name, sum)) = line.split_once(" = ") {
            self.sum(name.trim(), sum)?;
        } else {
            let term = Term { section: self.section.clone(), ..term(line, number)? };
            if self.place(&term.name).is_some() {
                return Err(format!("{} stands twice", term.name));
            }
            self.terms.push(term);
        }
        Ok(())
    }

    fn sum(&mut self, name: &str, sum: &str) -> Result<(), String> {
        let mut addends = Vec::new();
        for addend in sum.split(" + ") {
            addends.extend(self.addend(addend)?);
        }
        let before = self.sums.insert((self.section.clone(), name.to_owned()), addends);
        before.map_or(Ok(()), |_| Err(format!("{name} stands twice in its section")))
    }

    /// Where the section's term of a name is.
    fn place(&self, name: &str) -> Option<usize> {
        self.terms.iter().position(|term| term.name == name && term.section == self.section)
    }

    /// What an addend says: another sum is what that adds.
    fn addend(&self, text: &str) -> Result<Vec<Addend>, String> {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let name = words.pop().ok_or("nothing is added")?;
        let (mut factor, mut counts) = ([1.0; 3], Vec::new());
        for word in words {
            match factor_of(word) {
                Some(more) => (0..3).for_each(|end| factor[end] *= more[end]),
                None if self.given.contains(word) => counts.push(word.to_owned()),
                None => return Err(format!("{word} is no number and not given")),
            }
        }
        let key = (self.section.clone(), name.to_owned());
        let part = match (self.sums.get(&key), self.place(name)) {
            (_, Some(place)) => Part::Term(place),
            (Some(sum), _) if factor == [1.0; 3] && counts.is_empty() => return Ok(sum.clone()),
            (Some(_), _) => return Err(format!("the sum {name} is added once, without a factor")),
            (None, None) if self.given.contains(name) => Part::Given(name.to_owned()),
            (None, None) => return Err(format!("{name} is no term, no sum above, and not given")),
        };
        Ok(vec![Addend { factor, counts, part }])
    }
}

impl Addend {
    fn term(&self) -> Option<usize> {
        if let Part::Term(place) = self.part { Some(place) } else { None }
    }
}

/// A factor, `2`, or one with its ends, `1[0.4..3]`.
fn factor_of(word: &str) -> Option<[f64; 3]> {
    let Some((likely, ends)) = word.split_once('[') else {
        return word.parse().ok().map(|number| [number; 3]);
    };
    let (low, high) = ends.strip_suffix(']')?.split_once("..")?;
    Some([low.parse().ok()?, likely.parse().ok()?, high.parse().ok()?])
}

fn scale_named(name: &str) -> Result<Scale, String> {
    let found = SCALES.iter().find(|(known, _)| *known == name);
    let names = || SCALES.map(|(name, _)| name).join(", ");
    found.map(|(_, scale)| *scale).ok_or_else(|| format!("{name} is no scale ({})", names()))
}

fn term(line: &str, number: usize) -> Result<Term, String> {
    const FORM: &str = "a term is `NAME low likely high scale  reason | source`";
    let (start, source) = line.split_once(" | ").ok_or_else(|| format!("no source: {FORM}"))?;
    let mut words = start.split_whitespace();
    let name = words.next().unwrap_or_default().to_owned();
    let mut end = || words.next()?.parse::<f64>().ok();
    let ends = [end(), end(), end()];
    let [Some(low), Some(likely), Some(high)] = ends else { return Err(FORM.to_owned()) };
    if !(0.0 <= low && low <= likely && likely <= high && high > 0.0 && high.is_finite()) {
        return Err(format!("{low}, {likely} and {high} are no range"));
    }
    let scale = scale_named(words.next().unwrap_or_default())?;
    let reason = words.collect::<Vec<_>>().join(" ");
    if reason.is_empty() || source.trim().is_empty() {
        return Err(format!("no reason: {FORM}"));
    }
    let is_sourced = !source.trim().starts_with("memory");
    let ends = [low, likely, high];
    Ok(Term { name, section: String::new(), ends, scale, reason, is_sourced, line: number })
}

#[cfg(test)]
mod tests {
    use super::{Part, Rows, Scale};

    const GOOD: &str = "# terms\ncore << os.a os.b\n[x]\ngiven way lines\nA 1 2 3 core  a word | memory\n\
                        a = 2 way + lines A\nb = a + 1[0.5..4] A\nalone A\n";

    #[test]
    fn sums_are_of_terms_and_of_what_is_given() {
        let rows = Rows::read(GOOD).expect("it is right");
        let sum = &rows.sums[&("x".to_owned(), "b".to_owned())];
        assert_eq!(sum.len(), 3);
        assert_eq!((&sum[0].part, sum[0].factor), (&Part::Given("way".to_owned()), [2.0; 3]));
        assert_eq!((&*sum[1].counts, &sum[1].part), (&["lines".to_owned()][..], &Part::Term(0)));
        assert_eq!(sum[2].factor, [0.5, 1.0, 4.0]);
        assert_eq!(rows.sums[&("x".to_owned(), "A".to_owned())][0].part, Part::Term(0));
        assert_eq!(rows.relatives[&Scale::Core], ["os.a", "os.b"]);
        assert!(!rows.terms[0].is_sourced);
    }

    #[test]
    fn an_error_has_its_line() {
        for (line, row) in [
            ("A 3 2 1 core  a word | memory", "no range"),
            ("A 1 2 3 miles  a word | memory", "no scale"),
            ("A 1 2 3 core | memory", "no reason"),
            ("A 1 2 3 core  a word", "no source"),
            ("A 1 2 core  a word | memory", "a term is"),
            ("a = 2 B", "no term"),
            ("a = pages way", "not given"),
            ("B 1 2 3 core  a word | memory", "no sum has B"),
        ] {
            let text = format!("[x]\ngiven way\n{line}\n");
            let why = Rows::read(&text).expect_err(line);
            assert!(why.starts_with("3: ") && why.contains(row), "{line}: {why}");
        }
        let twice = GOOD.replace("b = a", "a = a");
        assert!(Rows::read(&twice).is_err_and(|why| why.starts_with("7: ")));
    }
}
