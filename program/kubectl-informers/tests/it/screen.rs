//! What a terminal shows after everything that was written to it. Knows the sequences that the dashboard writes.

/// The lines of a screen with this many columns and lines.
pub fn drawn(written: &str, (columns, lines): (u16, u16)) -> String {
    let (columns, lines) = (usize::from(columns), usize::from(lines));
    let mut cells = vec![vec![' '; columns]; lines];
    let (mut line, mut column) = (0, 0);
    let mut characters = written.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' if characters.peek() == Some(&'[') => {
                characters.next();
                let mut arguments = String::new();
                let end = characters.by_ref().find(|character| {
                    let is_end = character.is_ascii_alphabetic();
                    if !is_end {
                        arguments.push(*character);
                    }
                    is_end
                });
                match end {
                    Some('H') => {
                        let mut numbers = arguments
                            .split(';')
                            .map(|number| number.parse::<usize>().unwrap_or(1));
                        line = numbers.next().unwrap_or(1).saturating_sub(1);
                        column = numbers.next().unwrap_or(1).saturating_sub(1);
                    }
                    Some('J') => cells = vec![vec![' '; columns]; lines],
                    _ => {}
                }
            }
            '\u{1b}' => drop(characters.next()),
            '\r' => column = 0,
            '\n' => line += 1,
            character => {
                if let Some(cell) = cells.get_mut(line).and_then(|line| line.get_mut(column)) {
                    *cell = character;
                }
                column += 1;
            }
        }
    }
    let lines: Vec<String> = cells
        .iter()
        .map(|line| line.iter().collect::<String>().trim_end().to_owned())
        .collect();
    lines.join("\n")
}

#[test]
fn cells_stay_until_they_are_written_again() {
    let written = "\u{1b}[?1049h\u{1b}[2J\u{1b}[2;3Hcart\u{1b}[38;5;2m→\u{1b}[1;1Hx\u{1b}[2;4HA";
    assert_eq!(drawn(written, (8, 3)), "x\n  cArt→\n");
    assert_eq!(drawn("ab\u{1b}[2J\u{1b}[1;1Hc", (4, 1)), "c");
}
