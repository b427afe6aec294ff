// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/actor_fields.hpp"

#include "mesh/runtime/cell_record.hpp"

#include "core/state_hash.hpp"

#include <exception>
#include <new>
#include <utility>

namespace weft::mesh {
namespace {

/// Names in their order; of a list each element's.
class NamesDigest {
 public:
  void add(const Field& field) noexcept {
    hasher_.add(std::uint64_t{field.name.size()});
    hasher_.add_bytes(field.name.data(), field.name.size());
  }
  std::uint64_t value() const noexcept { return hasher_.digest().low; }

 private:
  StateHasher hasher_;
};

class FieldWriter final : public WordWriter {
 public:
  explicit FieldWriter(std::vector<std::uint64_t>& to) : WordWriter(to, scopes::kSnapshot) {}
  std::uint64_t names() const noexcept { return names_.value(); }

 private:
  void put(const Field& field, Element element, std::span<const std::byte> bytes) override {
    names_.add(field);
    WordWriter::put(field, element, bytes);
  }
  NamesDigest names_;
};

class FieldReader final : public WordReader {
 public:
  explicit FieldReader(std::span<const std::uint64_t> from) : WordReader(from, scopes::kSnapshot) {}
  std::uint64_t names() const noexcept { return names_.value(); }

 private:
  bool get(const Field& field, Element element, std::span<std::byte> to) override {
    names_.add(field);
    return WordReader::get(field, element, to);
  }
  NamesDigest names_;
};

/// The result of `act`, or what it threw as an error.
template <class Act>
auto without_throwing(const std::string& what, Act&& act) -> decltype(act()) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    return fail(Errc::full, "no memory");  // a text that needs none
  } catch (const std::exception& thrown) {
    return fail(Errc::internal, what + " threw: " + thrown.what());
  } catch (...) {
    return fail(Errc::internal, what + " threw");
  }
}

}  // namespace

void save_fields(const CellActor& actor, std::vector<std::uint64_t>& to) {
  FieldWriter archive(to);
  actor.visit(archive);
  to.push_back(archive.names());
}

Status restore_fields(CellActor& actor, std::span<const std::uint64_t> words) {
  constexpr const char* kOther = "; register the class that wrote this";
  if (words.empty()) return fail(Errc::corrupt, std::string("its actor's fields are missing") + kOther);
  return without_throwing("its actor's fields", [&]() -> Status {
    FieldReader archive(words.first(words.size() - 1));
    actor.visit(static_cast<InArchive&>(archive));
    if (archive.has_failed() && !archive.is_short())
      return fail(Errc::corrupt, "its actor's field '" + std::string(archive.failed_field()) +
                                     "' cannot be what was written" + kOther);
    if (archive.has_failed() || archive.words_left() != 0)
      return fail(Errc::corrupt, std::string("its actor reads ") + (archive.has_failed() ? "more" : "fewer") +
                                     " fields than were written" + kOther);
    if (archive.names() != words.back())
      return fail(Errc::corrupt,
                  std::string("its actor's fields have other names than those that were written") + kOther);
    return {};
  });
}

Result<std::unique_ptr<CellActor>> copy_of(const CellActor& actor, const std::string& object) {
  auto copy = without_throwing("clone of its actor", [&]() -> Result<std::unique_ptr<CellActor>> {
    if (auto made = actor.clone()) return made;
    return fail(Errc::invalid_argument, "clone of its actor made none");
  });
  if (!copy) return fail(std::move(copy).error().within(object));
  return copy;
}

Result<std::unique_ptr<CellActor>> checked_copy(const CellActor& actor, const std::string& object) {
  WEFT_TRY(std::unique_ptr<CellActor> copy, copy_of(actor, object));
  WEFT_TRY(const std::unique_ptr<CellActor> other, copy_of(actor, object));
  const Status checked = without_throwing("its actor's fields", [&]() -> Status {
    std::vector<std::uint64_t> words, again;
    save_fields(*copy, words);
    if (Status restored = restore_fields(*other, words); !restored)
      return fail(Errc::invalid_argument, "its actor's fields do not read what they wrote: " + restored.error().text());
    save_fields(*other, again);
    if (again == words) return {};
    return fail(Errc::invalid_argument, "its actor's fields write something else once they were read");
  });
  if (!checked) return fail(Error(checked.error()).within(object));
  return copy;
}

}  // namespace weft::mesh
