// SPDX-License-Identifier: Apache-2.0

#include "core/assert.hpp"
#include "core/json.hpp"

#include <algorithm>
#include <memory>

namespace weft {

struct JsonScalar::Members {
  Json::Object by_key;
  std::uint32_t next = 0;  // the order of the next key
};

Json::Json(std::string text) {
  text_ = new std::string(std::move(text));
  kind_ = Kind::text;
}
Json::Json(Array elements) {
  array_ = new Array(std::move(elements));
  kind_ = Kind::array;
}

Json::Json(std::initializer_list<JsonElement> elements) : Json() {
  const bool is_object = std::all_of(elements.begin(), elements.end(), [](const JsonElement& element) {
    return element.value_.is_array() && element.value_.size() == 2 && element.value_[0].is_string();
  });
  if (!is_object) {
    *this = array(elements);
    return;
  }
  *this = object();
  for (const JsonElement& element : elements)
    (*this)[std::string_view(element.value_[0].text())] = std::move(element.value_[1]);
}

Json Json::array(std::initializer_list<JsonElement> elements) {
  Array out;
  out.reserve(elements.size());
  for (const JsonElement& element : elements) out.push_back(std::move(element.value_));
  return out;
}

Json Json::object() {
  Json out;
  out.members_ = new Members;
  out.kind_ = Kind::object;
  return out;
}

Json::Json(const Json& other) : Json() {
  copy(other);
  order_ = other.order_;  // members copied with their parent
}

Json::Json(Json&& other) noexcept : Json() {
  take(other);
  order_ = other.order_;
}

Json& Json::operator=(const Json& other) {
  Json copied(other);  // it may be a part of this one
  return *this = std::move(copied);
}

Json& Json::operator=(Json&& other) noexcept {
  if (this == &other) return *this;
  Json taken(std::move(other));
  clear();
  take(taken);
  return *this;
}

Json::~Json() { clear(); }

void Json::clear() noexcept {
  if (!empty()) {
    // Not by recursion, so that no depth can exhaust the stack.
    Array open;
    const auto open_inner = [&open](Json& value) {
      const auto take_container = [&open](Json& inner) {
        if (!inner.empty()) open.push_back(std::move(inner));
      };
      for (Json& element : value) take_container(element);
      if (value.kind_ == Kind::object)
        for (auto& [key, member] : value.members_->by_key) take_container(member);
    };
    open_inner(*this);
    while (!open.empty()) {
      Json last = std::move(open.back());
      open.pop_back();
      open_inner(last);
    }
  }
  if (kind_ == Kind::text) delete text_;
  if (kind_ == Kind::array) delete array_;
  if (kind_ == Kind::object) delete members_;
  kind_ = Kind::null;
}

void Json::copy(const Json& other) {
  if (other.kind_ == Kind::text)
    text_ = new std::string(*other.text_);
  else if (other.kind_ == Kind::array)
    array_ = new Array(*other.array_);
  else if (other.kind_ == Kind::object)
    members_ = new Members(*other.members_);
  else if (other.kind_ == Kind::boolean)
    boolean_ = other.boolean_;
  else if (other.kind_ == Kind::real)
    real_ = other.real_;
  else
    natural_ = other.natural_;  // or integer_: the same 64 bits
  kind_ = other.kind_;
}

void Json::take(Json& other) noexcept {
  if (other.kind_ == Kind::text)
    text_ = other.text_;
  else if (other.kind_ == Kind::array)
    array_ = other.array_;
  else if (other.kind_ == Kind::object)
    members_ = other.members_;
  else
    copy(other);
  kind_ = other.kind_;
  other.kind_ = Kind::null;
}

const char* JsonScalar::kind_name() const noexcept {
  constexpr const char* kNames[] = {"null",     "a bool",   "a number", "a number",
                                    "a number", "a string", "an array", "an object"};
  return kNames[static_cast<int>(kind_)];
}

bool JsonScalar::as_bool() const {
  WEFT_ASSERT(kind_ == Kind::boolean, "JSON: " + std::string(kind_name()) + " is neither true nor false");
  return boolean_;
}

double JsonScalar::as_double() const {
  WEFT_ASSERT(is_number(), "JSON: " + std::string(kind_name()) + " is no number");
  if (kind_ == Kind::integer) return static_cast<double>(integer_);
  return kind_ == Kind::natural ? static_cast<double>(natural_) : real_;
}

std::int64_t JsonScalar::as_integer() const {
  WEFT_ASSERT(is_number(), "JSON: " + std::string(kind_name()) + " is no number");
  if (kind_ == Kind::real) return static_cast<std::int64_t>(real_);
  return kind_ == Kind::natural ? static_cast<std::int64_t>(natural_) : integer_;
}

std::uint64_t JsonScalar::as_natural() const {
  WEFT_ASSERT(is_number(), "JSON: " + std::string(kind_name()) + " is no number");
  if (kind_ == Kind::real) return static_cast<std::uint64_t>(real_);
  return kind_ == Kind::natural ? natural_ : static_cast<std::uint64_t>(integer_);
}

const std::string& Json::text() const {
  WEFT_ASSERT(kind_ == Kind::text, "JSON: " + dump() + " is no string");
  return *text_;
}

std::size_t Json::size() const noexcept {
  if (kind_ == Kind::array) return array_->size();
  return kind_ == Kind::object ? members_->by_key.size() : 0;
}

Json& Json::operator[](std::string_view key) {
  if (kind_ == Kind::null) *this = object();
  WEFT_ASSERT(kind_ == Kind::object, "JSON: " + dump() + " has no members");
  if (Json* const found = find(key)) return *found;
  Json& made = members_->by_key.emplace(std::string(key), Json()).first->second;
  made.order_ = members_->next++;
  return made;
}

const Json& Json::operator[](std::string_view key) const noexcept {
  static const Json none;
  const Json* const found = find(key);
  return found ? *found : none;
}

Json* Json::find(std::string_view key) noexcept {
  if (kind_ != Kind::object) return nullptr;
  const auto found = members_->by_key.find(key);
  return found == members_->by_key.end() ? nullptr : &found->second;
}

const Json* Json::find(std::string_view key) const noexcept { return const_cast<Json*>(this)->find(key); }

void Json::erase(std::string_view key) {
  if (kind_ != Kind::object) return;
  if (const auto found = members_->by_key.find(key); found != members_->by_key.end()) members_->by_key.erase(found);
}

void Json::update(const Json& other) {
  for (const auto* member : other.members_as_set()) (*this)[std::string_view(member->first)] = member->second;
}

const Json::Object& Json::members() const noexcept {
  static const Object none;
  return kind_ == Kind::object ? members_->by_key : none;
}

std::vector<const Json::Object::value_type*> Json::members_as_set() const {
  std::vector<const Object::value_type*> all;
  for (const auto& member : members()) all.push_back(&member);
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->second.order_ < b->second.order_; });
  return all;
}

Json& Json::push_back(Json value) {
  if (kind_ == Kind::null) *this = array();
  WEFT_ASSERT(kind_ == Kind::array, "JSON: " + dump() + " has no elements");
  return array_->emplace_back(std::move(value));
}

Json& Json::element(std::size_t index) {
  WEFT_ASSERT(kind_ == Kind::array && index < array_->size(),
              "JSON: " + dump() + " has no element " + std::to_string(index));
  return (*array_)[index];
}

const Json& Json::element(std::size_t index) const { return const_cast<Json*>(this)->element(index); }

Json* Json::begin() noexcept { return kind_ == Kind::array ? array_->data() : nullptr; }
Json* Json::end() noexcept { return kind_ == Kind::array ? array_->data() + array_->size() : nullptr; }
const Json* Json::begin() const noexcept { return const_cast<Json*>(this)->begin(); }
const Json* Json::end() const noexcept { return const_cast<Json*>(this)->end(); }

bool operator==(const Json& a, const Json& b) noexcept {
  using Kind = Json::Kind;
  if (a.is_number() && b.is_number()) {
    if (a.is_real() || b.is_real()) return a.as_double() == b.as_double();
    const bool is_negative = a.kind_ == Kind::integer && a.integer_ < 0;
    return is_negative == (b.kind_ == Kind::integer && b.integer_ < 0) && a.as_natural() == b.as_natural();
  }
  if (a.kind_ != b.kind_) return false;
  if (a.kind_ == Kind::boolean) return a.boolean_ == b.boolean_;
  if (a.kind_ == Kind::text) return *a.text_ == *b.text_;
  if (a.kind_ == Kind::array) return *a.array_ == *b.array_;
  return a.kind_ == Kind::null || a.members_->by_key == b.members_->by_key;
}

}  // namespace weft
