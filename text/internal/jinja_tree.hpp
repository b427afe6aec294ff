// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/internal/jinja_value.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weft::text::jinja {

enum class Operation : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  divide_whole,
  remainder,
  power,
  equal,
  not_equal,
  less,
  at_most,
  greater,
  at_least,
  in,
  not_in
};

/// A function, filter, test or method of a template, in the tables of jinja_library.hpp.
struct Routine;

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Form : std::uint8_t {
    constant,     // value
    name,         // text
    list,         // parts
    tuple,        // parts
    dict,         // parts: key, value, key, ...
    attribute,    // parts[0].text
    item,         // parts[0][parts[1]]
    slice,        // parts[0][parts[1] : parts[2] : parts[3]], each of the last three may be null
    call,         // parts[0](parts[1], ..., named)
    filter,       // parts[0] | routine(parts[1], ..., named); in a filter block parts[0] is null
    test,         // parts[0] is routine(parts[1], ...)
    negative,     // -parts[0]
    positive,     // +parts[0]
    negation,     // not parts[0]
    arithmetic,   // parts[0] operations[0] parts[1] operations[1] ..., from the left
    concat,       // parts[0] ~ parts[1] ~ ...
    all_of,       // parts[0] and parts[1] and ...
    any_of,       // parts[0] or ...
    comparison,   // parts[0] operations[0] parts[1] operations[1] ..., each of two neighbours
    conditional,  // parts[0] if parts[1] else parts[2], which may be null
  };
  Form form = Form::constant;
  std::size_t at = 0;     // in the source
  std::size_t depth = 1;  // levels, this one included
  std::string text;
  Text literal;  // of a constant text
  Value value;
  const Routine* routine = nullptr;
  std::vector<ExpressionPtr> parts;
  std::vector<Operation> operations;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Statement;
using Block = std::vector<Statement>;

/// Names that are set: one, one member of a namespace, or several that a sequence is taken apart into.
struct Target {
  std::vector<std::string> names;
  std::string member;  // of names[0]
  bool is_tuple = false;
};

struct Statement {
  enum class Kind : std::uint8_t {
    data,          // literal
    output,        // parts[0]
    condition,     // parts[i]: bodies[i]; the last body is that of else
    loop,          // target in parts[0] if parts[1], which may be null: bodies[0], else bodies[1]
    set,           // target = parts[0]
    set_block,     // target = bodies[0] through the filters parts[0], which may be null
    macro,         // macro text(parameters): bodies[0]
    call_block,    // call(parameters) parts[0]: bodies[0]
    filter_block,  // bodies[0] through parts[0]
    with,          // parameters are set for bodies[0]
    plain,         // bodies[0]: a generation block
    leave,         // break
    next,          // continue
  };
  Kind kind = Kind::data;
  std::size_t at = 0;
  std::string text;
  Text literal;
  Target target;
  std::vector<ExpressionPtr> parts;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // and their defaults, which may be null
  std::vector<Block> bodies;
};

struct Tree {
  std::string source;  // line ends as \n
  Block body;
};

}  // namespace weft::text::jinja
