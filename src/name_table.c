/*
 * name_table.c
 *		An open hash table over an array, never more than half full.
 */
#include "postgres.h"

#include "name_table.h"

#define FIRST_SLOTS 64 /* a power of two */

typedef struct NameEntry
{
	char *name;
	uint32 hash;
	void *data;
} NameEntry;

static uint32 HashName(const char *name);
static int *FindSlot(const NameTable *table, const char *name, uint32 hash);
static bool Grow(NameTable *table);

/* -1 where the table does not have the name. */
int
NameTableFind(const NameTable *table, const char *name)
{
	if (table->nslots == 0)
		return -1;
	return *FindSlot(table, name, HashName(name)) - 1;
}

int
NameTableAdd(NameTable *table, const char *name, void *data)
{
	NameEntry *entry;

	if (table->count >= table->nslots / 2 && !Grow(table))
		return -1;

	entry = &table->entries[table->count];
	entry->name = strdup(name);
	if (entry->name == NULL)
		return -1;
	entry->hash = HashName(name);
	entry->data = data;

	*FindSlot(table, name, entry->hash) = ++table->count;
	return table->count - 1;
}

const char *
NameTableName(const NameTable *table, int index)
{
	return table->entries[index].name;
}

void *
NameTableData(const NameTable *table, int index)
{
	return table->entries[index].data;
}

/* Leaves an empty table; the data is the caller's. */
void
NameTableFree(NameTable *table)
{
	for (int i = 0; i < table->count; i++)
		free(table->entries[i].name);
	free(table->entries);
	free(table->slots);
	memset(table, 0, sizeof(*table));
}

/* FNV-1a. */
static uint32
HashName(const char *name)
{
	uint32 hash = 2166136261U;

	for (; *name != '\0'; name++)
		hash = (hash ^ (unsigned char) *name) * 16777619U;
	return hash;
}

/* The slot that holds the name, or the free one where it belongs. */
static int *
FindSlot(const NameTable *table, const char *name, uint32 hash)
{
	uint32 mask = table->nslots - 1;

	for (uint32 at = hash & mask;; at = (at + 1) & mask)
	{
		int *slot = &table->slots[at];
		const NameEntry *entry;

		if (*slot == 0)
			return slot;
		entry = &table->entries[*slot - 1];
		if (entry->hash == hash && strcmp(entry->name, name) == 0)
			return slot;
	}
}

static bool
Grow(NameTable *table)
{
	int nslots = Max(table->nslots * 2, FIRST_SLOTS);
	NameEntry *entries;
	int *slots;

	entries = realloc(table->entries, nslots / 2 * sizeof(NameEntry));
	if (entries == NULL)
		return false;
	table->entries = entries;

	slots = calloc(nslots, sizeof(int));
	if (slots == NULL)
		return false;
	free(table->slots);
	table->slots = slots;
	table->nslots = nslots;

	for (int i = 0; i < table->count; i++)
		*FindSlot(table, entries[i].name, entries[i].hash) = i + 1;
	return true;
}
