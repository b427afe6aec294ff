// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::formats {
class CheckpointStore;
class EntityFile;
class EntityV1File;
class File;
class FileLock;
class FileSystem;
class JsonReader;
class JsonValue;
class MappedFile;
enum class CsvHeader;
enum class OpenMode;
enum class Packing : int;
struct Blob;
struct Checkpoint;
struct CheckpointOptions;
struct CsvOptions;
struct CsvTable;
struct EntityLimits;
struct EntityOptions;
struct EntityV1Blob;
struct JsonLimits;
struct NamedBytes;
}  // namespace weft::formats
