//! Phrases that come back in several texts, told once.

use std::collections::HashMap;

/// Words that a phrase has at least, letters, and places where it stands.
const WORDS: usize = 8;
const LETTERS: usize = 50;
const PLACES: usize = 3;

/// Phrases that are taken out of one set of texts.
const MOST: usize = 8;

/// Where a phrase begins: text and word.
type Place = (usize, usize);

/// Takes phrases that come back out of the texts and puts `[a]`, `[b]` … there. Returns letters with
/// phrases, the most sparing first. A phrase closes all the brackets that it opens.
pub(super) fn factored(texts: &mut [String]) -> Vec<(String, String)> {
    let mut phrases = Vec::new();
    for letter in ('a'..='z').take(MOST) {
        let words: Vec<Vec<&str>> = texts.iter().map(|text| text.split(' ').collect()).collect();
        let Some(phrase) = best(&words) else { break };
        let name = format!("[{letter}]");
        // A full stop of the sentence stays where it was.
        let phrase = phrase.trim_end_matches([',', ';', ':']).to_owned();
        for text in texts.iter_mut() {
            *text = text.replace(&phrase, &name);
        }
        phrases.push((name, phrase));
    }
    phrases
}

/// The phrase that spares most letters.
fn best(texts: &[Vec<&str>]) -> Option<String> {
    let mut places: HashMap<&[&str], Vec<Place>> = HashMap::new();
    for (text, words) in texts.iter().enumerate() {
        for (at, window) in words.windows(WORDS).enumerate() {
            places.entry(window).or_default().push((text, at));
        }
    }
    let mut found: Option<(usize, String)> = None;
    let mut candidates: Vec<&Vec<Place>> = places
        .values()
        .filter(|places| places.len() >= PLACES)
        .collect();
    // In the order of the texts: what is taken does not depend on the map's.
    candidates.sort();
    for places in candidates {
        let Some(phrase) = grown(texts, places) else {
            continue;
        };
        let spared = phrase.chars().count() * (places.len() - 1);
        if found.as_ref().is_none_or(|(most, _)| spared > *most) {
            found = Some((spared, phrase));
        }
    }
    found.map(|(_, phrase)| phrase)
}

/// The longest phrase from the places on that is the same at all of them and balanced.
fn grown(texts: &[Vec<&str>], places: &[Place]) -> Option<String> {
    let word = |(text, at): Place, ahead: usize| texts[text].get(at + ahead).copied();
    let at_all = |ahead: usize, part: fn(&str) -> &str| -> Option<&str> {
        let (first, rest) = places.split_first()?;
        let next = part(word(*first, ahead)?);
        let is_same = rest
            .iter()
            .all(|place| word(*place, ahead).map(part) == Some(next));
        (is_same && !next.is_empty() && !next.starts_with('[')).then_some(next)
    };
    let mut phrase: Vec<&str> = Vec::new();
    // Words up to which all brackets are closed, and the phrase until there.
    let mut whole: Option<(usize, String)> = None;
    let mut depth = 0_i32;
    loop {
        let same = at_all(phrase.len(), |word| word);
        // The last word may be followed by a stop that is another at each place.
        let next = same.or_else(|| {
            at_all(phrase.len(), |word| {
                word.trim_end_matches([',', ';', ':', ')'])
            })
        });
        let Some(next) = next else { break };
        for letter in next.chars() {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            if depth < 0 {
                return whole.and_then(long_enough);
            }
        }
        phrase.push(next);
        if depth == 0 {
            whole = Some((phrase.len(), phrase.join(" ")));
        }
        if same.is_none() {
            break;
        }
    }
    whole.and_then(long_enough)
}

fn long_enough((words, phrase): (usize, String)) -> Option<String> {
    (words >= WORDS && phrase.chars().count() >= LETTERS).then_some(phrase)
}

#[cfg(test)]
mod tests {
    use super::factored;

    #[test]
    fn what_comes_back_is_told_once_and_brackets_stay_closed() {
        let clock =
            "at core clock between 2.60 GHz (as the kernel says, of a guest) and 1.6 times that";
        let mut texts = [
            format!("20 to 38 cycles {clock}; software: none"),
            format!("one (two cycles {clock}) more"),
            format!("91 cycles {clock}, or so"),
            "nothing of that".to_owned(),
        ];
        let before = texts.clone();
        let found = factored(&mut texts);
        assert_eq!(found, [("[a]".to_owned(), clock.to_owned())]);
        assert_eq!(texts[0], "20 to 38 cycles [a]; software: none");
        assert_eq!(texts[1], "one (two cycles [a]) more");
        // Put back, nothing is lost.
        let back = texts.map(|text| text.replace("[a]", clock));
        assert_eq!(back, before);
    }

    #[test]
    fn twice_is_not_again_and_again() {
        let mut texts = [
            "one two three four five six seven eight nine ten eleven twelve".to_owned(),
            "one two three four five six seven eight nine ten eleven twelve".to_owned(),
        ];
        assert!(factored(&mut texts).is_empty());
    }
}
