// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weft {

/// Purpose of a field of state, which decides what it is kept by
/// (docs/decisions/0025-one-archive-and-streamed-files.md).
enum class Scope : std::uint8_t {
  committed,  // values of a session that the next tick reads: outputs, hidden states
  history,    // values of a session that learning reads of the past
  weights,    // masters and quantized forms
  optimizer,  // arrays of a rule beside the weights, and counts of updates
  control,    // switches of a cell that decide what it computes, and what its monitors remember
  care,       // supervision of a cell, and commands that wait
  messages,   // of a rule, on their way between steps: errors, labels, counters
  results,    // follows from the others, or is read by a run's next steps only: kept in memory, not in files
  answers,    // waits for whoever drives the rule
  steps       // of a rule, within one run: a device's host side alone goes back to it
};

/// A set of scopes.
class Scopes {
 public:
  constexpr Scopes() = default;
  constexpr Scopes(std::initializer_list<Scope> all) noexcept {
    for (const Scope scope : all) bits_ |= 1u << static_cast<unsigned>(scope);
  }
  constexpr bool contains(Scope scope) const noexcept { return bits_ >> static_cast<unsigned>(scope) & 1u; }
  /// Without fields that a device has.
  constexpr Scopes on_host() const noexcept {
    Scopes fewer = *this;
    fewer.is_on_host_ = true;
    return fewer;
  }
  constexpr bool is_on_host() const noexcept { return is_on_host_; }
  constexpr Scopes without(Scope scope) const noexcept {
    Scopes fewer = *this;
    fewer.bits_ &= ~(1u << static_cast<unsigned>(scope));
    return fewer;
  }

 private:
  unsigned bits_ = 0;
  bool is_on_host_ = false;
};

/// Scopes that each use of a state takes.
namespace scopes {
inline constexpr Scopes kHash{Scope::committed, Scope::weights, Scope::optimizer, Scope::control};
inline constexpr Scopes kSnapshot{Scope::committed, Scope::history,  Scope::weights, Scope::optimizer, Scope::control,
                                  Scope::care,      Scope::messages, Scope::results, Scope::answers};
inline constexpr Scopes kCheckpoint = kSnapshot.without(Scope::results).without(Scope::answers);
inline constexpr Scopes kSession{Scope::committed};
inline constexpr Scopes kRestart{Scope::committed, Scope::weights, Scope::optimizer};
inline constexpr Scopes kHostSide = Scopes{Scope::optimizer, Scope::messages, Scope::results, Scope::steps}.on_host();
}  // namespace scopes

/// One field of a state. A type's `visit` names each of its fields once, in an order that never changes:
///
///   template <class Self, class Archive>
///   static void visit(Self& self, Archive& archive) {
///     archive({"momentum", Scope::optimizer}, std::span(self.momentum_));
///     archive({"samples", Scope::messages}, self.samples_);
///   }
///
/// Hashes, snapshots, checkpoints, sessions and restarts are archives that it is called with.
struct Field {
  static constexpr std::uint32_t kOnly = UINT32_MAX;
  std::string_view name;
  Scope scope;
  std::uint32_t first = kOnly, second = kOnly;  // position among several of the name
  bool is_on_device = false;                    // a device that runs the steps has it; the host's copy is older then
};

/// Type of a field's elements, where a file names it.
enum class Element : std::uint8_t { bytes, u32, u64, float32 };

namespace detail {
template <class T>
inline constexpr bool is_span = false;
template <class T, std::size_t N>
inline constexpr bool is_span<std::span<T, N>> = true;
/// One value as the bytes that archives take.
template <class T>
concept Plain = std::is_trivially_copyable_v<T> && !is_span<std::remove_cv_t<T>>;
template <class T>
constexpr Element element_of() noexcept {
  using Type = std::remove_cv_t<T>;
  return std::is_same_v<Type, float>           ? Element::float32
         : std::is_same_v<Type, std::uint32_t> ? Element::u32
         : std::is_same_v<Type, std::uint64_t> ? Element::u64
                                               : Element::bytes;
}
}  // namespace detail

/// An archive that takes fields out of a state.
/// @thread one at a time
class OutArchive {
 public:
  explicit OutArchive(Scopes scopes) noexcept : scopes_(scopes) {}
  virtual ~OutArchive() = default;
  bool takes(const Field& field) const noexcept {
    return scopes_.contains(field.scope) && !(field.is_on_device && scopes_.is_on_host());
  }

  template <detail::Plain T>
  void operator()(const Field& field, const T& value) {
    if (takes(field)) put(field, detail::element_of<T>(), std::as_bytes(std::span(&value, 1)));
  }
  template <class T, std::size_t N>
  void operator()(const Field& field, std::span<T, N> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (takes(field)) put(field, detail::element_of<T>(), std::as_bytes(values));
  }
  /// As many as there are now: another number may come back.
  template <class T>
  void list(const Field& field, const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (takes(field)) put_list(field, values.size(), std::as_bytes(std::span(values)), values.capacity() * sizeof(T));
  }
  /// A word that must be the same in the state that it goes back into.
  void same(const Field& field, std::uint64_t word) { (*this)(field, word); }
  /// A small value as a word of 64 bits. What comes back outside of [least, most] does not fit.
  template <class T>
  void word(const Field& field, const T& value, std::uint64_t = 0, std::uint64_t = UINT64_MAX) {
    (*this)(field, static_cast<std::uint64_t>(value));
  }
  /// A value as the word that `encode` makes of it; `decode` says nothing for a word of which no value comes.
  template <class T, class Encode, class Decode>
  void coded(const Field& field, const T& value, Encode encode, Decode) {
    (*this)(field, std::uint64_t{encode(value)});
  }
  /// The number of a list's elements, of a word or more each, which are visited later.
  template <class T>
  void count(const Field& field, const std::vector<T>& values) {
    (*this)(field, std::uint64_t{values.size()});
  }

 protected:
  OutArchive(const OutArchive&) = default;
  OutArchive& operator=(const OutArchive&) = default;
  virtual void put(const Field& field, Element element, std::span<const std::byte> bytes) = 0;
  /// `capacity`: bytes that the list may hold without growing.
  virtual void put_list(const Field& field, std::uint64_t count, std::span<const std::byte> bytes,
                        [[maybe_unused]] std::size_t capacity) {
    put(field, Element::u64, std::as_bytes(std::span(&count, 1)));
    put(field, Element::bytes, bytes);
  }

 private:
  Scopes scopes_;
};

/// An archive that puts fields back. After one that does not fit, the others are passed over.
/// @thread one at a time
class InArchive {
 public:
  explicit InArchive(Scopes scopes) noexcept : scopes_(scopes) {}
  virtual ~InArchive() = default;
  bool takes(const Field& field) const noexcept {
    return !has_failed_ && scopes_.contains(field.scope) && !(field.is_on_device && scopes_.is_on_host());
  }
  /// A field did not fit.
  bool has_failed() const noexcept { return has_failed_; }
  /// Name of that field; empty where it has none.
  std::string_view failed_field() const noexcept { return failed_field_; }

  /// True when the value changed.
  template <detail::Plain T>
  bool operator()(const Field& field, T& value) {
    return takes(field) && get(field, detail::element_of<T>(), std::as_writable_bytes(std::span(&value, 1)));
  }
  template <class T, std::size_t N>
  bool operator()(const Field& field, std::span<T, N> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    return takes(field) && get(field, detail::element_of<T>(), std::as_writable_bytes(values));
  }
  template <class T>
  void list(const Field& field, std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!takes(field)) return;
    std::uint64_t count = 0;
    get(field, Element::u64, std::as_writable_bytes(std::span(&count, 1)));
    if (count > left() / sizeof(T)) return fail(field);
    values.resize(count);
    get(field, Element::bytes, std::as_writable_bytes(std::span(values)));
  }
  void same(const Field& field, std::uint64_t word) {
    std::uint64_t found = word;
    (*this)(field, found);
    if (found != word) fail(field);
  }
  template <class T>
  void word(const Field& field, T& value, std::uint64_t least = 0, std::uint64_t most = UINT64_MAX) {
    coded(field, value, nullptr, [&](std::uint64_t found) {
      return found < least || found > most ? std::nullopt : std::optional(static_cast<T>(found));
    });
  }
  template <class T, class Encode, class Decode>
  void coded(const Field& field, T& value, Encode, Decode decode) {
    if (!takes(field)) return;
    std::uint64_t found = 0;
    get(field, Element::u64, std::as_writable_bytes(std::span(&found, 1)));
    if (has_failed_) return;
    if (const std::optional<T> made = decode(found))
      value = *made;
    else
      fail(field);
  }
  template <class T>
  void count(const Field& field, std::vector<T>& values) {
    std::uint64_t found = values.size();
    word(field, found);
    if (!takes(field)) return;
    if (found > left() / sizeof(std::uint64_t)) return fail(field);
    values.clear();
    values.resize(found);
  }

 protected:
  InArchive(const InArchive&) = default;
  InArchive& operator=(const InArchive&) = default;
  void fail(const Field& field = {{}, Scope::steps}) noexcept {
    has_failed_ = true;
    failed_field_ = field.name;
  }
  /// True when the bytes differed from those that were there.
  virtual bool get(const Field& field, Element element, std::span<std::byte> bytes) = 0;
  /// Bytes that may still come.
  virtual std::uint64_t left() const noexcept = 0;

 private:
  Scopes scopes_;
  bool has_failed_ = false;
  std::string_view failed_field_;
};

/// Adds fields to a state hash.
class HashArchive final : public OutArchive {
 public:
  explicit HashArchive(StateHasher& hasher, Scopes scopes = scopes::kHash) noexcept
      : OutArchive(scopes), hasher_(hasher) {}

 protected:
  void put(const Field&, Element, std::span<const std::byte> bytes) override { hasher_.add(bytes); }

 private:
  StateHasher& hasher_;
};

}  // namespace weft
