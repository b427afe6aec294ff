// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_library.hpp"
#include "text/unicode.hpp"

#include <algorithm>

namespace weft::text::jinja {
namespace {

using Bound = Routine::Bound;

Value yes(bool value) { return Value::of_bool(value); }

template <Kind kKind>
Maybe<Value> is_kind(Machine&, const Value& value, const Bound&, const Arguments&) {
  return yes(value.kind == kKind);
}
Maybe<Value> is_defined(Machine&, const Value& value, const Bound&, const Arguments&) {
  return yes(!value.is_undefined());
}
Maybe<Value> is_mapping(Machine&, const Value& value, const Bound&, const Arguments&) {
  return yes(value.kind == Kind::dict && !value.dict->is_namespace);
}
/// True for values that can be iterated over: undefined ones too, as in Jinja.
Maybe<Value> is_iterable(Machine&, const Value& value, const Bound&, const Arguments&) {
  return yes(value.is_undefined() || value.is_text() || value.kind == Kind::list ||
             (value.kind == Kind::dict && !value.dict->is_namespace));
}
Maybe<Value> is_a_number(Machine&, const Value& value, const Bound&, const Arguments&) {
  return yes(value.is_number());
}
template <bool kValue>
Maybe<Value> is_boolean(Machine&, const Value& value, const Bound&, const Arguments&) {
  return yes(value.kind == Kind::boolean && value.boolean == kValue);
}
Maybe<Value> has_remainder(Machine& machine, const Value& value, const Value& by, std::int64_t remainder) {
  WEFT_TRY(const Value rest, compute(machine, Operation::remainder, value, by));
  WEFT_TRY(const bool equal, machine.is_equal(rest, Value::of_integer(remainder)));
  return yes(equal);
}
template <std::int64_t kRemainder>
Maybe<Value> is_of_two(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  return has_remainder(machine, value, Value::of_integer(2), kRemainder);
}
Maybe<Value> is_divisible_by(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  return has_remainder(machine, value, bound[0], 0);
}
template <bool kEqual>
Maybe<Value> is_equal_to(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  WEFT_TRY(const bool equal, machine.is_equal(value, bound[0]));
  return yes(equal == kEqual);
}
template <int kSign, bool kOrEqual>
Maybe<Value> is_ordered(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  WEFT_TRY(const int order, machine.order(value, bound[0], kSign < 0 ? "<" : ">"));
  return yes(order == kSign || (kOrEqual && order == 0));
}
Maybe<Value> is_in(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  WEFT_TRY(const bool found, contains(machine, bound[0], value));
  return yes(found);
}
template <bool kUpper>
Maybe<Value> is_in_case(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  WEFT_TRY(const Value text, string_of(machine, value));
  bool has_case = false;
  for (std::size_t at = 0; at < text.bytes().size();) has_case |= is_cased(next_code_point(text.bytes(), at));
  return yes(has_case && (kUpper ? upper_case(text.bytes()) : lower_case(text.bytes())) == text.bytes());
}
Maybe<Value> is_same_as(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  const Value& other = bound[0];
  if (value.kind != other.kind) return yes(false);
  if (value.kind == Kind::list) return yes(value.list == other.list);
  if (value.kind == Kind::dict) return yes(value.dict == other.dict);
  WEFT_TRY(const bool equal, machine.is_equal(value, other));
  return yes(equal);
}

constexpr Routine kTests[] = {
    {"defined", is_defined},
    {"undefined", is_kind<Kind::undefined>},
    {"none", is_kind<Kind::none>},
    {"string", is_kind<Kind::text>},
    {"boolean", is_kind<Kind::boolean>},
    {"integer", is_kind<Kind::integer>},
    {"float", is_kind<Kind::real>},
    {"callable", is_kind<Kind::function>},
    {"number", is_a_number},
    {"mapping", is_mapping},
    {"iterable", is_iterable},
    {"sequence", is_iterable},
    {"true", is_boolean<true>},
    {"false", is_boolean<false>},
    {"odd", is_of_two<1>},
    {"even", is_of_two<0>},
    {"divisibleby", is_divisible_by, 1, {"num"}},
    {"equalto", is_equal_to<true>, 1, {"other"}},
    {"eq", is_equal_to<true>, 1, {"other"}},
    {"==", is_equal_to<true>, 1, {"other"}},
    {"ne", is_equal_to<false>, 1, {"other"}},
    {"!=", is_equal_to<false>, 1, {"other"}},
    {"lt", is_ordered<-1, false>, 1, {"other"}},
    {"lessthan", is_ordered<-1, false>, 1, {"other"}},
    {"<", is_ordered<-1, false>, 1, {"other"}},
    {"le", is_ordered<-1, true>, 1, {"other"}},
    {"<=", is_ordered<-1, true>, 1, {"other"}},
    {"gt", is_ordered<1, false>, 1, {"other"}},
    {"greaterthan", is_ordered<1, false>, 1, {"other"}},
    {">", is_ordered<1, false>, 1, {"other"}},
    {"ge", is_ordered<1, true>, 1, {"other"}},
    {">=", is_ordered<1, true>, 1, {"other"}},
    {"in", is_in, 1, {"seq"}},
    {"upper", is_in_case<true>},
    {"lower", is_in_case<false>},
    {"sameas", is_same_as, 1, {"other"}},
};

}  // namespace

const Routine* find_test(std::string_view name) noexcept {
  const auto found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const Routine& r) { return r.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace weft::text::jinja
