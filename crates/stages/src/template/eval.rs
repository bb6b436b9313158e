//! The evaluation of a template.

use super::{
    Assignment, Branch, Call, DEPTH, Functions, MOST_BYTES, MOST_STEPS, Node, Operand, Pipeline, call, show,
};
use object::Value;

/// The state of an evaluation.
pub(super) struct Evaluation<'a> {
    functions: &'a dyn Functions,
    /// The variables, the newest last; the first is `$`.
    variables: Vec<(String, Value)>,
    out: String,
    steps: usize,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(object: &Value, functions: &'a dyn Functions) -> Self {
        let variables = vec![(String::new(), object.clone())];
        Self { functions, variables, out: String::new(), steps: 0 }
    }

    /// Writes the parts, and returns what they have written.
    pub(super) fn run(mut self, nodes: &[Node]) -> Result<String, String> {
        let dot = self.variables.first().map(|(_, object)| object.clone()).unwrap_or_default();
        self.write(nodes, &dot)?;
        Ok(self.out)
    }

    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        match self.steps > MOST_STEPS || self.out.len() > MOST_BYTES {
            true => Err("a template does too much".to_owned()),
            false => Ok(()),
        }
    }

    fn write(&mut self, nodes: &[Node], dot: &Value) -> Result<(), String> {
        for node in nodes {
            self.step()?;
            match node {
                Node::Text(text) => self.out.push_str(text),
                Node::Action(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    match pipeline.variables.first() {
                        Some(name) => self.assign(name, value, pipeline.assignment)?,
                        None => show::write(&value, &mut self.out),
                    }
                }
                Node::If(branch) => self.scoped(|this| {
                    let value = this.condition(branch, dot)?;
                    this.write(if call::is_true(&value) { &branch.then } else { &branch.or_else }, dot)
                })?,
                Node::With(branch) => self.scoped(|this| {
                    let value = this.condition(branch, dot)?;
                    match call::is_true(&value) {
                        true => this.write(&branch.then, &value),
                        false => this.write(&branch.or_else, dot),
                    }
                })?,
                Node::Range(branch) => self.scoped(|this| this.range(branch, dot))?,
            }
        }
        Ok(())
    }

    /// Forgets the variables that are declared within.
    fn scoped(&mut self, run: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<(), String> {
        let count = self.variables.len();
        let outcome = run(self);
        self.variables.truncate(count);
        outcome
    }

    /// The value of the pipeline of an `if` or `with`, which may be a variable.
    fn condition(&mut self, branch: &Branch, dot: &Value) -> Result<Value, String> {
        let value = self.pipeline(&branch.pipeline, dot)?;
        if let Some(name) = branch.pipeline.variables.first() {
            self.assign(name, value.clone(), branch.pipeline.assignment)?;
        }
        Ok(value)
    }

    fn range(&mut self, branch: &Branch, dot: &Value) -> Result<(), String> {
        let items: Vec<(Value, Value)> = match self.pipeline(&branch.pipeline, dot)? {
            Value::Null => Vec::new(),
            Value::Map(map) => {
                let mut items: Vec<_> =
                    map.iter().map(|(key, value)| (Value::from(key.as_str()), value.clone())).collect();
                items.sort_by(|(one, _), (other, _)| one.as_str().cmp(&other.as_str()));
                items
            }
            Value::Int(count @ 0..) => {
                let most = i64::try_from(MOST_STEPS).unwrap_or(i64::MAX);
                (0..count.min(most + 1)).map(|at| (Value::Int(at), Value::Int(at))).collect()
            }
            list if list.as_list().is_some() => {
                let list = list.as_list().unwrap_or_default().iter().enumerate();
                list.map(|(at, value)| (Value::Int(i64::try_from(at).unwrap_or(i64::MAX)), value.clone()))
                    .collect()
            }
            other => return Err(format!("range can't iterate over {}", show::text(&other))),
        };
        if items.is_empty() {
            return self.write(&branch.or_else, dot);
        }
        for (key, value) in items {
            self.step()?;
            self.scoped(|this| {
                let Pipeline { variables, assignment, .. } = &branch.pipeline;
                match variables.as_slice() {
                    [one] => this.assign(one, value.clone(), *assignment)?,
                    [first, second, ..] => {
                        this.assign(first, key, *assignment)?;
                        this.assign(second, value.clone(), *assignment)?;
                    }
                    [] => {}
                }
                this.write(&branch.then, &value)
            })?;
        }
        Ok(())
    }

    fn assign(&mut self, name: &str, value: Value, assignment: Assignment) -> Result<(), String> {
        if assignment == Assignment::Declare {
            self.variables.push((name.to_owned(), value));
            return Ok(());
        }
        match self.variables.iter_mut().rev().find(|(known, _)| known == name) {
            Some((_, known)) => {
                *known = value;
                Ok(())
            }
            None => Err(format!("undefined variable: ${name}")),
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let mut last: Option<Value> = None;
        for call in &pipeline.calls {
            self.step()?;
            let value = match call {
                Call::Operand(operand) => self.operand(operand, dot)?,
                Call::Function(name, operands) => self.call(name, operands, last.take(), dot)?,
            };
            last = Some(value);
        }
        Ok(last.unwrap_or_default())
    }

    fn call(
        &mut self,
        name: &str,
        operands: &[Operand],
        last: Option<Value>,
        dot: &Value,
    ) -> Result<Value, String> {
        let mut arguments = Vec::new();
        for operand in operands {
            let value = self.operand(operand, dot)?;
            // What follows is not evaluated.
            match name {
                "and" if !call::is_true(&value) => return Ok(value),
                "or" if call::is_true(&value) => return Ok(value),
                _ => arguments.push(value),
            }
        }
        arguments.extend(last);
        let outcome = match self.functions.call(name, &arguments) {
            Some(outcome) => outcome,
            None => call::call(name, &arguments),
        };
        let value = outcome.map_err(|why| format!("error calling {name}: {why}"))?;
        // Values that are made of themselves again and again grow with each step.
        self.steps = self.steps.saturating_add(weight(&value, DEPTH));
        self.step()?;
        Ok(value)
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        self.step()?;
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Dot(fields) => Ok(field(dot, fields)),
            Operand::Variable(name, fields) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                let (_, value) = found.ok_or_else(|| format!("undefined variable: ${name}"))?;
                Ok(field(value, fields))
            }
            Operand::Nested(pipeline, fields) => {
                let value = self.pipeline(pipeline, dot)?;
                Ok(field(&value, fields))
            }
            Operand::Function(name) => self.call(name, &[], None, dot),
        }
    }
}

/// How much a value is, in steps: without end if it is nested deeper than `depth`.
fn weight(value: &Value, depth: usize) -> usize {
    let Some(depth) = depth.checked_sub(1) else { return usize::MAX };
    let mut sum = 1_usize;
    let mut add = |value: &Value| {
        if sum <= MOST_STEPS {
            sum = sum.saturating_add(weight(value, depth));
        }
    };
    match value {
        Value::String(text) => return text.len() / 64,
        Value::Map(map) => map.iter().for_each(|(_, value)| add(value)),
        other => other.as_list().unwrap_or_default().iter().for_each(add),
    }
    sum
}

/// The field of a value; what is absent has no value.
fn field(value: &Value, names: &[String]) -> Value {
    let mut found = value;
    for name in names {
        match found.get(name) {
            Some(next) => found = next,
            None => return Value::Null,
        }
    }
    found.clone()
}
