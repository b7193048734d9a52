//! Conditions between knobs: `max_num_batched_tokens >= max_num_seqs and not (dtype == 'fp8')`.
//!
//! ```text
//! or := and ("or" and)*          and := not ("and" not)*        not := "not" not | comparison
//! comparison := sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
//! sum := product (("+" | "-") product)*                product := unary (("*" | "/" | "%") unary)*
//! unary := "-" unary | number | 'text' | true | false | name | "(" or ")"
//! ```
//! Numbers are 64-bit floats; a knob that does not apply has no value, see [`Expression::holds`].

use std::collections::BTreeSet;
use std::fmt;

use super::value::KnobValue;

/// A condition, read and ready to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    tree: Tree,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Number,
    /// A text.
    Text,
    /// True or false.
    Truth,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Number => "a number",
            Kind::Text => "a text",
            Kind::Truth => "true or false",
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Number(f64),
    Text(String),
    Truth(bool),
    Name(String),
    Negative(Box<Tree>),
    Not(Box<Tree>),
    Both(Op, Box<(Tree, Tree)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Or,
    And,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    Unequal,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Text(String),
    Truth(bool),
}

impl From<&KnobValue> for Value {
    fn from(value: &KnobValue) -> Self {
        match value {
            KnobValue::Int(value) => Value::Number(*value as f64),
            KnobValue::Float(value) => Value::Number(*value),
            KnobValue::Choice(value) => Value::Text(value.clone()),
            KnobValue::Flag(value) => Value::Truth(*value),
        }
    }
}

impl KnobValue {
    /// What conditions take it for.
    pub(super) fn kind(&self) -> Kind {
        match self {
            KnobValue::Int(_) | KnobValue::Float(_) => Kind::Number,
            KnobValue::Choice(_) => Kind::Text,
            KnobValue::Flag(_) => Kind::Truth,
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Expression {
    /// Reads a condition.
    ///
    /// # Errors
    /// Says what was expected where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens, at: 0 };
        let tree = parser.either()?;
        match parser.peek() {
            None => Ok(Self { text: text.trim().to_owned(), tree }),
            Some(token) => {
                Err(format!("`{token}` is not expected here; put `and` or `or` between conditions"))
            }
        }
    }

    /// The knobs that it names.
    pub fn names(&self) -> BTreeSet<&str> {
        fn collect<'a>(tree: &'a Tree, names: &mut BTreeSet<&'a str>) {
            match tree {
                Tree::Name(name) => drop(names.insert(name)),
                Tree::Negative(inner) | Tree::Not(inner) => collect(inner, names),
                Tree::Both(_, pair) => {
                    collect(&pair.0, names);
                    collect(&pair.1, names);
                }
                Tree::Number(_) | Tree::Text(_) | Tree::Truth(_) => {}
            }
        }
        let mut names = BTreeSet::new();
        collect(&self.tree, &mut names);
        names
    }

    /// Checks that the condition is one, given the types of the knobs.
    ///
    /// # Errors
    /// Names the knob that does not exist or the two types that do not fit.
    pub fn check(&self, kind_of: &dyn Fn(&str) -> Option<Kind>) -> Result<(), String> {
        match kind(&self.tree, kind_of)? {
            Kind::Truth => Ok(()),
            other => Err(format!("it gives {other}, not true or false; write a comparison")),
        }
    }

    /// Checks that the expression gives a number, given the types of the knobs.
    ///
    /// # Errors
    /// As [`Expression::check`].
    pub fn check_number(&self, kind_of: &dyn Fn(&str) -> Option<Kind>) -> Result<(), String> {
        match kind(&self.tree, kind_of)? {
            Kind::Number => Ok(()),
            other => Err(format!("it gives {other}, not a number")),
        }
    }

    /// The number that it gives; none where it names a knob without a value, or gives none.
    pub fn number<'a>(&self, value_of: &dyn Fn(&str) -> Option<&'a KnobValue>) -> Option<f64> {
        match evaluate(&self.tree, value_of)? {
            Value::Number(number) => Some(number),
            Value::Text(_) | Value::Truth(_) => None,
        }
    }

    /// Whether it holds; none where it names a knob without a value.
    pub fn holds<'a>(&self, value_of: &dyn Fn(&str) -> Option<&'a KnobValue>) -> Option<bool> {
        match evaluate(&self.tree, value_of)? {
            Value::Truth(truth) => Some(truth),
            Value::Number(_) | Value::Text(_) => None,
        }
    }
}

fn kind(tree: &Tree, kind_of: &dyn Fn(&str) -> Option<Kind>) -> Result<Kind, String> {
    let must = |tree: &Tree, wanted: Kind, what: &str| match kind(tree, kind_of)? {
        found if found == wanted => Ok(()),
        found => Err(format!("`{what}` needs {wanted} and gets {found}")),
    };
    match tree {
        Tree::Number(_) => Ok(Kind::Number),
        Tree::Text(_) => Ok(Kind::Text),
        Tree::Truth(_) => Ok(Kind::Truth),
        Tree::Name(name) => kind_of(name)
            .ok_or_else(|| format!("no knob is called `{name}`; a text stands in quotes, as in `'{name}'`")),
        Tree::Negative(inner) => must(inner, Kind::Number, "-").map(|()| Kind::Number),
        Tree::Not(inner) => must(inner, Kind::Truth, "not").map(|()| Kind::Truth),
        Tree::Both(op, pair) => {
            let (left, right) = &**pair;
            let both = |wanted| must(left, wanted, op.sign()).and_then(|()| must(right, wanted, op.sign()));
            match op {
                Op::Or | Op::And => both(Kind::Truth).map(|()| Kind::Truth),
                Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual => {
                    both(Kind::Number).map(|()| Kind::Truth)
                }
                Op::Equal | Op::Unequal => both(kind(left, kind_of)?).map(|()| Kind::Truth),
                Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Remainder => {
                    both(Kind::Number).map(|()| Kind::Number)
                }
            }
        }
    }
}

fn evaluate<'a>(tree: &Tree, value_of: &dyn Fn(&str) -> Option<&'a KnobValue>) -> Option<Value> {
    Some(match tree {
        Tree::Number(number) => Value::Number(*number),
        Tree::Text(text) => Value::Text(text.clone()),
        Tree::Truth(truth) => Value::Truth(*truth),
        Tree::Name(name) => value_of(name)?.into(),
        Tree::Negative(inner) => match evaluate(inner, value_of)? {
            Value::Number(number) => Value::Number(-number),
            _ => return None,
        },
        Tree::Not(inner) => match evaluate(inner, value_of)? {
            Value::Truth(truth) => Value::Truth(!truth),
            _ => return None,
        },
        Tree::Both(op, pair) => op.apply(evaluate(&pair.0, value_of)?, evaluate(&pair.1, value_of)?)?,
    })
}

impl Op {
    const SIGNS: [(&'static str, Op); 11] = [
        ("<=", Op::LessEqual),
        (">=", Op::GreaterEqual),
        ("==", Op::Equal),
        ("!=", Op::Unequal),
        ("<", Op::Less),
        (">", Op::Greater),
        ("+", Op::Add),
        ("-", Op::Subtract),
        ("*", Op::Multiply),
        ("/", Op::Divide),
        ("%", Op::Remainder),
    ];

    fn sign(self) -> &'static str {
        match self {
            Op::Or => "or",
            Op::And => "and",
            _ => Self::SIGNS.iter().find(|(_, op)| *op == self).map_or("", |(sign, _)| sign),
        }
    }

    fn apply(self, left: Value, right: Value) -> Option<Value> {
        if matches!(self, Op::Equal | Op::Unequal) {
            return Some(Value::Truth((left == right) == (self == Op::Equal)));
        }
        Some(match (left, right) {
            (Value::Truth(a), Value::Truth(b)) => match self {
                Op::Or => Value::Truth(a || b),
                Op::And => Value::Truth(a && b),
                _ => return None,
            },
            (Value::Number(a), Value::Number(b)) => match self {
                Op::Less => Value::Truth(a < b),
                Op::LessEqual => Value::Truth(a <= b),
                Op::Greater => Value::Truth(a > b),
                Op::GreaterEqual => Value::Truth(a >= b),
                Op::Add => Value::Number(a + b),
                Op::Subtract => Value::Number(a - b),
                Op::Multiply => Value::Number(a * b),
                Op::Divide => Value::Number(a / b),
                Op::Remainder => Value::Number(a.rem_euclid(b)),
                Op::Or | Op::And | Op::Equal | Op::Unequal => return None,
            },
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Text(String),
    Word(String),
    Sign(Op),
    Open,
    Close,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Number(number) => number.fmt(f),
            Token::Text(text) => write!(f, "'{text}'"),
            Token::Word(word) => f.write_str(word),
            Token::Sign(op) => f.write_str(op.sign()),
            Token::Open => f.write_str("("),
            Token::Close => f.write_str(")"),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word_end = |more: fn(char) -> bool| rest.find(|c| !more(c)).unwrap_or(rest.len());
        let length = if first == '(' || first == ')' {
            tokens.push(if first == '(' { Token::Open } else { Token::Close });
            1
        } else if first == '\'' || first == '"' {
            let end = rest[1..].find(first).ok_or_else(|| format!("the text {rest} has no closing quote"))?;
            tokens.push(Token::Text(rest[1..=end].to_owned()));
            end + 2
        } else if first.is_ascii_digit() || first == '.' {
            let end = word_end(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
            let digits = rest[..end].replace('_', "");
            tokens.push(Token::Number(
                digits.parse().map_err(|_| format!("`{}` is not a number", &rest[..end]))?,
            ));
            end
        } else if first.is_alphabetic() || first == '_' {
            let end = word_end(|c| c.is_alphanumeric() || c == '_');
            tokens.push(Token::Word(rest[..end].to_owned()));
            end
        } else if let Some((sign, op)) = Op::SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            tokens.push(Token::Sign(*op));
            sign.len()
        } else {
            let mend = match first {
                '=' => "; equality is `==`",
                '&' | '|' | '!' => "; use `and`, `or`, `not`",
                _ => "",
            };
            return Err(format!("`{first}` cannot be read{mend}"));
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(seen)) if seen == word);
        self.at += usize::from(found);
        found
    }

    fn sign(&mut self, among: &[Op]) -> Option<Op> {
        match self.peek() {
            Some(Token::Sign(op)) if among.contains(op) => {
                let op = *op;
                self.at += 1;
                Some(op)
            }
            _ => None,
        }
    }

    fn either(&mut self) -> Result<Tree, String> {
        let mut tree = self.all()?;
        while self.word("or") {
            tree = Tree::Both(Op::Or, Box::new((tree, self.all()?)));
        }
        Ok(tree)
    }

    fn all(&mut self) -> Result<Tree, String> {
        let mut tree = self.negation()?;
        while self.word("and") {
            tree = Tree::Both(Op::And, Box::new((tree, self.negation()?)));
        }
        Ok(tree)
    }

    fn negation(&mut self) -> Result<Tree, String> {
        if self.word("not") {
            return Ok(Tree::Not(Box::new(self.negation()?)));
        }
        let left = self.sum()?;
        let comparisons = [Op::Less, Op::LessEqual, Op::Greater, Op::GreaterEqual, Op::Equal, Op::Unequal];
        match self.sign(&comparisons) {
            Some(op) => Ok(Tree::Both(op, Box::new((left, self.sum()?)))),
            None => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Tree, String> {
        let mut tree = self.product()?;
        while let Some(op) = self.sign(&[Op::Add, Op::Subtract]) {
            tree = Tree::Both(op, Box::new((tree, self.product()?)));
        }
        Ok(tree)
    }

    fn product(&mut self) -> Result<Tree, String> {
        let mut tree = self.unary()?;
        while let Some(op) = self.sign(&[Op::Multiply, Op::Divide, Op::Remainder]) {
            tree = Tree::Both(op, Box::new((tree, self.unary()?)));
        }
        Ok(tree)
    }

    fn unary(&mut self) -> Result<Tree, String> {
        if self.sign(&[Op::Subtract]).is_some() {
            return Ok(Tree::Negative(Box::new(self.unary()?)));
        }
        let token = self.peek().cloned().ok_or("it ends where a value is expected")?;
        self.at += 1;
        match token {
            Token::Number(number) => Ok(Tree::Number(number)),
            Token::Text(text) => Ok(Tree::Text(text)),
            Token::Word(word) => Ok(match word.as_str() {
                "true" => Tree::Truth(true),
                "false" => Tree::Truth(false),
                _ => Tree::Name(word),
            }),
            Token::Open => {
                let tree = self.either()?;
                if self.peek() == Some(&Token::Close) {
                    self.at += 1;
                    Ok(tree)
                } else {
                    Err("a `(` has no `)`".to_owned())
                }
            }
            other => Err(format!("`{other}` stands where a value is expected")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn holds(text: &str) -> Option<bool> {
        let expression = Expression::parse(text).unwrap();
        let values = [
            ("seqs", KnobValue::Int(64)),
            ("share", KnobValue::Float(0.5)),
            ("dtype", KnobValue::Choice("fp8".to_owned())),
            ("chunked", KnobValue::Flag(true)),
        ];
        let kind_of = |name: &str| values.iter().find(|v| v.0 == name).map(|v| v.1.kind());
        if text.contains("absent") {
            return expression.holds(&|name| values.iter().find(|v| v.0 == name).map(|v| &v.1));
        }
        expression.check(&kind_of).unwrap();
        expression.holds(&|name| values.iter().find(|v| v.0 == name).map(|v| &v.1))
    }

    #[test]
    fn conditions_bind_as_in_arithmetic() {
        let cases = [
            ("seqs >= 64", true),
            ("seqs * 2 + 1 == 129", true),
            ("2 + 3 * 4 == 14 and -2 - -3 == 1", true),
            ("(2 + 3) * 4 == 20", true),
            ("seqs / 128 == share", true),
            ("seqs % 48 == 16", true),
            ("true or false and false", true),
            ("not chunked or seqs > 1_000", false),
            ("not (chunked and dtype != 'fp8')", true),
            ("dtype == \"fp8\" and chunked", true),
            ("8 - 4 - 2 == 2", true),
        ];
        for (text, expected) in cases {
            assert_eq!(holds(text), Some(expected), "{text}");
        }
        assert_eq!(holds("absent > 1"), None);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_the_mend() {
        let error = |text: &str| Expression::parse(text).unwrap_err();
        assert_eq!(error("seqs = 4"), "`=` cannot be read; equality is `==`");
        assert_eq!(error("a > 1 && b"), "`&` cannot be read; use `and`, `or`, `not`");
        assert_eq!(error("(a > 1"), "a `(` has no `)`");
        assert_eq!(error("a >"), "it ends where a value is expected");
        assert_eq!(error("a > 1 b > 2"), "`b` is not expected here; put `and` or `or` between conditions");
        assert_eq!(error("a == 'x"), "the text 'x has no closing quote");
        assert_eq!(error("1x > 2"), "`1x` is not a number");
    }

    #[test]
    fn types_that_do_not_fit_are_refused() {
        let kind_of = |name: &str| match name {
            "n" => Some(Kind::Number),
            "t" => Some(Kind::Text),
            _ => None,
        };
        let error = |text: &str| Expression::parse(text).unwrap().check(&kind_of).unwrap_err();
        assert_eq!(error("t > 1"), "`>` needs a number and gets a text");
        assert_eq!(error("n"), "it gives a number, not true or false; write a comparison");
        assert!(error("fp8 == t").starts_with("no knob is called `fp8`; a text stands in quotes"));
        assert_eq!(error("n == t"), "`==` needs a number and gets a text");
    }
}
