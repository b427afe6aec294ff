// SPDX-License-Identifier: Apache-2.0

#include "topology/operating_system.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>

namespace weft::topology::operating_system_test {
namespace {

namespace fs = std::filesystem;

class PciDevicesTest : public testing::Test {
 protected:
  PciDevicesTest() : root_(fs::temp_directory_path() / ("weft_pci_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "drivers/nvidia");
    fs::create_directories(root_ / "devices");
  }
  ~PciDevicesTest() override { fs::remove_all(root_); }
  fs::path add(const std::string& address, const std::string& device_class, const std::string& vendor,
               const std::string& device) {
    const fs::path at = root_ / "devices" / address;
    fs::create_directories(at);
    std::ofstream(at / "class") << device_class << "\n";
    std::ofstream(at / "vendor") << vendor << "\n";
    std::ofstream(at / "device") << device << "\n";
    return at;
  }
  fs::path root_;
};

TEST_F(PciDevicesTest, ListsDisplaysAndAcceleratorsWithTheirDrivers) {
  add("0000:41:00.0", "0x030200", "0x10de", "0x2330");
  add("0000:00:02.0", "0x030000", "0x8086", "0x9a49");
  add("0000:00:1f.2", "0x010601", "0x8086", "0x2922");  // a disk
  add("0000:05:00.0", "0x120000", "0x1da3", "0x1000");
  fs::create_directory_symlink("../../drivers/nvidia", root_ / "devices/0000:41:00.0/driver");
  const auto found = read_pci_devices(root_ / "devices");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].address, "0000:00:02.0");
  EXPECT_EQ(found[0].ids, "8086:9a49");
  EXPECT_EQ(found[0].kind, "display");
  EXPECT_EQ(found[0].driver, "");
  EXPECT_EQ(found[1].kind, "accelerator");
  EXPECT_EQ(found[2].ids, "10de:2330");
  EXPECT_EQ(found[2].driver, "nvidia");
}

TEST_F(PciDevicesTest, NoBusHasNoDevices) { EXPECT_TRUE(read_pci_devices(root_ / "nowhere").empty()); }

TEST_F(PciDevicesTest, FilesThatSayNothingAreNoDevice) {
  fs::create_directories(root_ / "devices/0000:00:00.0");
  add("0000:00:01.0", "", "", "");
  EXPECT_TRUE(read_pci_devices(root_ / "devices").empty());
}

TEST(OperatingSystem, NamesItselfAsOsReleaseDoes) {
  EXPECT_EQ(system_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(system_name("NAME='Alpine Linux'\nID=alpine\n"), "Alpine Linux");
  EXPECT_EQ(system_name("NAME=Void"), "Void");
  EXPECT_EQ(system_name("ID=other\nNAME\n"), "");
  EXPECT_EQ(system_name(""), "");
}

TEST(OperatingSystem, IsReadHere) {
  const OperatingSystem system = read_operating_system();
  EXPECT_EQ(system.kernel.rfind("Linux ", 0), 0u) << system.kernel;
  EXPECT_EQ(system.libc.rfind("glibc 2.", 0), 0u) << system.libc;
  EXPECT_FALSE(system.machine.empty());
}

TEST(Disk, HasWhatIsFreeForThisUser) {
  const Disk disk = read_disk(fs::temp_directory_path());
  EXPECT_GT(disk.bytes, 0u);
  EXPECT_LE(disk.free, disk.bytes);
  const fs::space_info space = fs::space(fs::temp_directory_path());  // the standard library's own question
  EXPECT_EQ(disk.bytes, space.capacity);
  EXPECT_EQ(read_disk("/nowhere/at/all").bytes, 0u);
}

}  // namespace
}  // namespace weft::topology::operating_system_test
