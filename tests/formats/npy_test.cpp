// SPDX-License-Identifier: Apache-2.0
// Arrays of numpy: bytes written here by the format's description, archives by python3's numpy (tests/data/formats).

#include "formats/npy/npy.hpp"

#include "formats/npy/npz.hpp"
#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include "tests/support/source_path.hpp"
#include <cstring>
#include <string>

namespace weft::formats::npy_test {
namespace {

using namespace std::string_literals;

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string text(values.size() * sizeof(T), '\0');
  std::memcpy(text.data(), values.begin(), text.size());
  return text;
}

std::string npy(const std::string& header, const std::string& values, int version = 1) {
  const std::size_t size = header.size();
  std::string text =
      "\x93NUMPY"s + static_cast<char>(version) + '\0' + static_cast<char>(size & 255) + static_cast<char>(size >> 8);
  if (version > 1) text += "\0\0"s;
  return text + header + values;
}
std::string header(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }          \n";
}

TEST(Npy, ReadsEveryTypeAndVersion) {
  struct Case {
    std::string text;
    double last;
  };
  for (const Case& c : {Case{npy(header("<f8", "(2, 1)"), raw<double>({1, 0.1})), 0.1},
                        Case{npy(header("<f4", "(2, 1)"), raw<float>({1, -2.5f}), 2), -2.5},
                        Case{npy(header("<i4", "(2, 1)"), raw<std::int32_t>({1, -7}), 3), -7},
                        Case{npy(header("<i8", "(2,1)"), raw<std::int64_t>({1, 1ll << 40})), 1099511627776.0},
                        Case{npy("{\"shape\":(2,1,),'fortran_order':False,'descr':'<f8'}", raw<double>({1, 5})), 5}}) {
    const auto array = NpyArray::open(as_bytes(c.text), "t");
    ASSERT_TRUE(array) << array.error().text();
    EXPECT_EQ(array->shape(), (Shape{2, 1}));
    ASSERT_EQ(array->size(), 2u);
    EXPECT_EQ(array->value(0), 1);
    EXPECT_EQ(array->value(1), c.last);
  }
  const std::string one = npy(header("<f8", "()"), raw<double>({4})), none = npy(header("<f8", "(0, 3)"), "");
  EXPECT_EQ(NpyArray::open(as_bytes(one), "t")->value(0), 4);
  EXPECT_EQ(NpyArray::open(as_bytes(none), "t")->size(), 0u);
  // One axis is in both orders.
  EXPECT_TRUE(NpyArray::open(as_bytes(npy(header("<f8", "(1,)", "True"), raw<double>({4}))), "t"));
}

TEST(Npy, RefusesWhatItCannotRead) {
  const std::string two = raw<double>({1, 2});
  struct Case {
    std::string text, error;
  };
  for (const Case& c :
       {Case{"", "does not begin"}, Case{"\x93NUMPY\1\0"s, "cut short"},
        Case{"\x93NUMPY\1\0\xFF\xFF\0\0"s, "cut short"}, Case{npy(header("<f8", "(2,)"), two, 4), ".npy version 4"},
        Case{npy(header("|O", "(2,)"), two), "pickle"}, Case{npy(header(">f8", "(2,)"), two), "big-endian"},
        Case{npy(header("<c8", "(2,)"), two), "known are"},
        Case{npy(header("<f8", "(2, 1)", "True"), two), "Fortran order"},
        Case{npy(header("<f8", "(3,)"), two), "16 bytes of values, its shape [3] says 24"},
        Case{npy(header("<f8", "(1,)"), two), "16 bytes of values"},
        Case{npy(header("<f8", "(4294967296, 4294967296)"), two), "more than"},
        Case{npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,)}", two), "[('a', '<f8')]"},
        Case{npy("{}", two), "its header is not"}, Case{npy("{'shape': (2,)}", two), "its header is not"},
        Case{npy(header("<f8", "(2"), two), "its header is not"},
        Case{npy(header("<f8", "(-2,)"), two), "its header is not"},
        Case{npy(header("<f8", "(2,)") + "x", two), "its header is not"},
        Case{npy("{'shape': (2,), 'shape': (2,)}", two), "its header is not"}}) {
    const auto array = NpyArray::open(as_bytes(c.text), "t");
    ASSERT_FALSE(array) << c.error;
    EXPECT_NE(array.error().text().find(c.error), std::string::npos) << array.error().text();
  }
}

ByteBuffer file_of(const char* name) {
  return storage::real_file_system().read(source_path("tests/data/formats/") + name, 1 << 20).value();
}

TEST(Npz, ReadsWhatNumpyWrites) {
  for (const char* name : {"deflated.npz", "stored.npz"}) {
    const ByteBuffer bytes = file_of(name);
    const auto file = NpzFile::open(bytes, name);
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_EQ(file->names(), (std::vector<std::string>{"x_test", "token_ids"}));
    const auto member = file->member("x_test", 1 << 20);
    ASSERT_TRUE(member) << member.error().text();
    const auto array = NpyArray::open(*member, name);
    ASSERT_TRUE(array) << array.error().text();
    EXPECT_EQ(array->shape(), (Shape{3, 4}));
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(array->value(i), static_cast<double>(i) / 8);
    EXPECT_FALSE(file->contains("x"));
    EXPECT_NE(file->member("x", 1).error().text().find("there are: x_test, token_ids"), std::string::npos);
    EXPECT_EQ(file->member("x_test", 100).error().code(), Errc::too_large);
  }
}

TEST(Npz, NoticesEveryDamagedByteOfAMember) {
  const ByteBuffer whole = file_of("deflated.npz");
  const auto good = *NpzFile::open(whole, "t")->member("x_test", 1 << 20);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    ByteBuffer bytes = whole;
    bytes[at] ^= std::byte{0x41};
    const auto file = NpzFile::open(bytes, "t");
    const auto member = file ? file->member("x_test", 1 << 20) : Result<ByteBuffer>(fail(file.error()));
    if (!member) {
      ++refused;
      continue;
    }
    ASSERT_EQ(member->size(), good.size()) << at;
    EXPECT_EQ(std::memcmp(member->data(), good.data(), good.size()), 0) << at;
  }
  EXPECT_GT(refused, whole.size() / 4);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(NpzFile::open(ByteSpan(whole).first(size), "t")) << size;
}

}  // namespace
}  // namespace weft::formats::npy_test
