// SPDX-License-Identifier: Apache-2.0

#include "text/grammar.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace weft::text {
namespace {

/// Rules of JSON itself. Numbers and white space are bounded, so that no text goes on for ever in them.
constexpr std::string_view kJsonRules =
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,16}\n"
    "char ::= [^\"\\\\\\x00-\\x1F\\x7F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" ([0-9a-cA-CeEfF] [0-9a-fA-F]{3} | [dD] "
    "[0-7] "
    "[0-9a-fA-F]{2}))\n"
    "integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15})\n"
    "number ::= integer (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n"
    "value ::= object | array | string | number | boolean | null\n"
    "object ::= \"{\" ws (member (\",\" ws member)*)? \"}\"\n"
    "member ::= string \":\" ws value ws\n"
    "array ::= \"[\" ws (value ws (\",\" ws value ws)*)? \"]\"\n";

constexpr std::string_view kTypes[] = {"object", "array", "string", "number", "integer", "boolean", "null"};
constexpr std::string_view kRemarks[] = {"title",    "description", "$schema",  "$id",       "$comment", "default",
                                         "examples", "deprecated",  "readOnly", "writeOnly", "$defs",    "definitions"};

std::string literal(std::string_view text) {
  constexpr std::string_view kSigns = "\"\\\n\r\t", kLetters = "\"\\nrt";
  std::string made = "\"";
  for (const char c : text) {
    const std::size_t sign = kSigns.find(c);
    made += sign == kSigns.npos ? std::string(1, c) : std::string("\\") + kLetters[sign];
  }
  return made + '"';
}

/// JSON's type of a value; whole numbers are integers.
std::string_view type_of(const Json& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_bool()) return "boolean";
  if (value.is_null()) return "null";
  return value.is_integer() ? "integer" : "number";
}

class SchemaWriter {
 public:
  explicit SchemaWriter(const Json& root) : root_(root) {}

  Result<std::string> write() {
    WEFT_TRY(const std::string body, expression_of(root_, "schema", 0));
    std::string made = "root ::= " + body + "\n" + std::string(kJsonRules);
    for (const std::string& rule : rules_) made += rule + "\n";
    return made;
  }

 private:
  static Failure refuse(const std::string& path, const std::string& text, Errc code = Errc::unsupported) {
    return fail(code, path + ": " + text);
  }
  /// A new rule; an expression that calls it.
  std::string rule_of(const std::string& body) {
    const std::string name = "r" + std::to_string(rules_.size());
    rules_.push_back(name + " ::= " + body);
    return name;
  }

  Result<std::string> expression_of(const Json& schema, const std::string& path, std::size_t depth) {
    if (depth > 64) return refuse(path, "more than 64 levels", Errc::too_large);
    if (schema.is_bool() && schema.get<bool>()) return std::string("value");
    if (!schema.is_object())
      return refuse(path, "found " + printable(schema.dump()) + ", expected a schema", Errc::parse_failed);
    if (const Json* const of = schema.find("$ref")) return reference(schema, *of, path, depth);
    if (const Json* const of = schema.find("anyOf")) return any_of(schema, *of, path, depth);
    WEFT_TRY(const std::vector<std::string> types, types_of(schema, path));
    if (schema.contains("enum") || schema.contains("const")) return listed(schema, types, path);
    WEFT_CHECK(check_keywords(schema, types, path));
    std::string made;
    for (const std::string& type : types) {
      WEFT_TRY(const std::string one, of_type(schema, type, path, depth));
      made += (made.empty() ? "" : " | ") + one;
    }
    return types.size() == 1 ? made : rule_of(made);
  }

  static Status check_only(const Json& schema, std::initializer_list<std::string_view> known, const std::string& path) {
    for (const auto& [key, value] : schema.members())
      if (std::find(known.begin(), known.end(), key) == known.end() &&
          std::find(std::begin(kRemarks), std::end(kRemarks), key) == std::end(kRemarks))
        return refuse(path + "." + printable(key),
                      "this keyword is not known here" +
                          std::string(known.size() == 1 ? ", beside " + std::string(*known.begin()) : ""));
    return {};
  }
  static Status check_keywords(const Json& schema, const std::vector<std::string>& types, const std::string& path) {
    WEFT_CHECK(check_only(schema,
                          {"type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
                           "minLength", "maxLength"},
                          path));
    // A keyword of a type that cannot come is a slip.
    const std::pair<std::string_view, std::string_view> kOwners[] = {
        {"properties", "object"}, {"required", "object"}, {"additionalProperties", "object"},
        {"items", "array"},       {"minItems", "array"},  {"maxItems", "array"},
        {"minLength", "string"},  {"maxLength", "string"}};
    for (const auto& [key, type] : kOwners)
      if (schema.contains(key) && std::find(types.begin(), types.end(), type) == types.end())
        return refuse(path + "." + std::string(key), "the type is not " + std::string(type));
    return {};
  }

  static Result<std::vector<std::string>> types_of(const Json& schema, const std::string& path) {
    const Json* const found = schema.find("type");
    std::vector<std::string> types;
    if (!found) {
      // The type of its keywords; a schema without any is of all types.
      if (schema.contains("properties") || schema.contains("required") || schema.contains("additionalProperties"))
        return std::vector<std::string>{"object"};
      if (schema.contains("items") || schema.contains("minItems") || schema.contains("maxItems"))
        return std::vector<std::string>{"array"};
      if (schema.contains("minLength") || schema.contains("maxLength")) return std::vector<std::string>{"string"};
      return std::vector<std::string>{"value"};
    }
    const auto add = [&](const Json& type) -> Status {
      if (!type.is_string() || std::find(std::begin(kTypes), std::end(kTypes), type.text()) == std::end(kTypes))
        return refuse(path + ".type", "found " + printable(type.dump()) + ", expected a type of JSON",
                      Errc::parse_failed);
      types.push_back(type.text());
      return {};
    };
    if (!found->is_array()) {
      WEFT_CHECK(add(*found));
    }
    for (const Json& type : *found) WEFT_CHECK(add(type));
    if (types.empty()) return refuse(path + ".type", "is an empty list", Errc::parse_failed);
    return types;
  }

  Result<std::string> of_type(const Json& schema, const std::string& type, const std::string& path, std::size_t depth) {
    if (type == "object") return object_of(schema, path, depth);
    if (type == "array") return array_of(schema, path, depth);
    if (type != "string" || !(schema.contains("minLength") || schema.contains("maxLength"))) return type;
    WEFT_TRY(const std::string bounds, bounds_of(schema, "minLength", "maxLength", path));
    return rule_of("\"\\\"\" char" + bounds + " \"\\\"\"");
  }

  static Result<std::optional<std::size_t>> size_of(const Json& schema, std::string_view key, const std::string& path) {
    const Json* const found = schema.find(key);
    if (!found) return std::optional<std::size_t>();
    if (!found->is_natural() || found->get<std::uint64_t>() > 2000)
      return refuse(path + "." + std::string(key), "found " + printable(found->dump()) + ", expected 0 to 2000",
                    Errc::out_of_range);
    return std::optional(found->get<std::size_t>());
  }
  static Result<std::string> bounds_of(const Json& schema, std::string_view least, std::string_view most,
                                       const std::string& path) {
    WEFT_TRY(const auto from, size_of(schema, least, path));
    WEFT_TRY(const auto to, size_of(schema, most, path));
    if (to && from && *to < *from)
      return refuse(path, std::string(most) + " is below " + std::string(least), Errc::out_of_range);
    return "{" + std::to_string(from.value_or(0)) + "," + (to ? std::to_string(*to) : "") + "}";
  }

  Result<std::string> array_of(const Json& schema, const std::string& path, std::size_t depth) {
    const Json* const items = schema.find("items");
    std::string item = "value";
    if (items) {
      WEFT_TRY(item, expression_of(*items, path + ".items", depth + 1));
    }
    WEFT_TRY(const auto least, size_of(schema, "minItems", path));
    WEFT_TRY(const auto most, size_of(schema, "maxItems", path));
    if (least && most && *most < *least) return refuse(path, "maxItems is below minItems", Errc::out_of_range);
    if (most && *most == 0) return rule_of("\"[\" ws \"]\"");
    const std::size_t first = least.value_or(0) > 0 ? *least - 1 : 0;
    std::string body = item + " ws (\",\" ws " + item + " ws){" + std::to_string(first) + "," +
                       (most ? std::to_string(*most - 1) : "") + "}";
    if (least.value_or(0) == 0) body = "(" + body + ")?";
    return rule_of("\"[\" ws " + body + " \"]\"");
  }

  Result<std::string> object_of(const Json& schema, const std::string& path, std::size_t depth) {
    const Json *const properties = schema.find("properties"), *const required = schema.find("required"),
                      *const others = schema.find("additionalProperties");
    if (others && !others->is_bool())
      return refuse(path + ".additionalProperties", "a schema is not known here; true or false");
    if (properties && !properties->is_object()) return refuse(path + ".properties", "is no object", Errc::parse_failed);
    if (!properties && !required && !(others && !others->get<bool>())) return std::string("object");
    std::vector<std::pair<std::string, std::string>> members;  // names, and rules of values
    if (properties)
      for (const Json::Object::value_type* const member : properties->members_as_set()) {
        WEFT_TRY(std::string value,
                 expression_of(member->second, path + ".properties." + printable(member->first), depth + 1));
        members.emplace_back(member->first, std::move(value));
      }
    std::set<std::string> wanted;
    if (required && !required->is_array()) return refuse(path + ".required", "is no list", Errc::parse_failed);
    if (required)
      for (const Json& name : *required) {
        if (!name.is_string()) return refuse(path + ".required", "has what is no name", Errc::parse_failed);
        const auto is_it = [&](const auto& member) { return member.first == name.text(); };
        if (std::none_of(members.begin(), members.end(), is_it)) {
          if (others && !others->get<bool>())
            return refuse(path + ".required", in_quotes(name.text()) + " is none of the properties",
                          Errc::unknown_name);
          members.emplace_back(name.text(), "value");
        }
        wanted.insert(name.text());
      }
    return rule_of("\"{\" ws " + members_of(members, wanted) + " \"}\"");
  }

  /// Members in order, those that are not wanted left out or not: `head` before the first one, `tail` behind it.
  std::string members_of(const std::vector<std::pair<std::string, std::string>>& members,
                         const std::set<std::string>& wanted) {
    std::string head = "\"\"", tail = "\"\"";
    for (auto member = members.rbegin(); member != members.rend(); ++member) {
      const std::string pair = rule_of(literal(Json(member->first).dump()) + " \":\" ws " + member->second + " ws");
      if (wanted.contains(member->first)) {
        head = rule_of(pair + " " + tail);
        tail = rule_of("\",\" ws " + pair + " " + tail);
      } else {
        head = rule_of(pair + " " + tail + " | " + head);
        tail = rule_of("(\",\" ws " + pair + ")? " + tail);
      }
    }
    return head;
  }

  /// enum and const: their values as JSON writes them on one line.
  Result<std::string> listed(const Json& schema, const std::vector<std::string>& types, const std::string& path) {
    WEFT_CHECK(check_only(schema, {"type", "enum", "const"}, path));
    const Json *const values = schema.find("enum"), *const one = schema.find("const");
    if (values && (!values->is_array() || values->empty()))
      return refuse(path + ".enum", "expected a list of values", Errc::parse_failed);
    Json all = values ? *values : Json::array({*one});
    std::string made;
    for (const Json& value : all) {
      const bool is_typed =
          types[0] == "value" || std::any_of(types.begin(), types.end(), [&](const std::string& type) {
            return type == type_of(value) || (type == "number" && type_of(value) == "integer");
          });
      if (!is_typed || (one && values && !(value == *one))) continue;
      made += (made.empty() ? "" : " | ") + literal(value.dump(Json::Order::as_set));
    }
    if (made.empty()) return refuse(path, "no value is left that it could take", Errc::out_of_range);
    return rule_of(made);
  }

  Result<std::string> any_of(const Json& schema, const Json& parts, const std::string& path, std::size_t depth) {
    WEFT_CHECK(check_only(schema, {"anyOf"}, path));
    if (!parts.is_array() || parts.empty())
      return refuse(path + ".anyOf", "expected a list of schemas", Errc::parse_failed);
    std::string made;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      WEFT_TRY(const std::string one, expression_of(parts[i], path + ".anyOf[" + std::to_string(i) + "]", depth + 1));
      made += (made.empty() ? "" : " | ") + one;
    }
    return rule_of(made);
  }

  /// A schema of $defs or definitions of the root: a rule, which may call itself.
  Result<std::string> reference(const Json& schema, const Json& of, const std::string& path, std::size_t depth) {
    WEFT_CHECK(check_only(schema, {"$ref"}, path));
    const std::string target = of.is_string() ? of.text() : "";
    for (const std::string_view group : {"$defs", "definitions"}) {
      const std::string prefix = "#/" + std::string(group) + "/";
      const Json* const table = root_.find(group);
      if (!target.starts_with(prefix) || !table || !table->is_object()) continue;
      const std::string name = target.substr(prefix.size());
      const Json* const found = table->find(name);
      if (!found) break;
      const auto [known, is_new] = references_.emplace(target, "d" + std::to_string(references_.size()));
      const std::string rule = known->second;
      if (is_new) {
        WEFT_TRY(const std::string body,
                 expression_of(*found, "schema." + std::string(group) + "." + printable(name), depth + 1));
        rules_.push_back(rule + " ::= " + body);
      }
      return rule;
    }
    return refuse(path + ".$ref", "found " + printable(of.dump()) + ", expected a schema of this one's $defs");
  }

  const Json& root_;
  std::vector<std::string> rules_;
  std::map<std::string, std::string> references_;
};

}  // namespace

Result<std::string> grammar_of_schema(const Json& schema) {
  WEFT_CHECK(check_json(schema));
  return SchemaWriter(schema).write();
}

}  // namespace weft::text
