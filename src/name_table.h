/*
 * name_table.h
 *		Names to small numbers and back: 0, 1, 2 … in the order of their first
 *		use, the same as long as the table lives.
 *
 * Uses malloc() alone and never raises.
 */
#ifndef OUTBOX_NAME_TABLE_H
#define OUTBOX_NAME_TABLE_H

#include "postgres.h"

typedef struct NameTable
{
	int count;
	struct NameEntry *entries; /* by index; room for half of nslots */
	int *slots;				   /* hash table: index + 1, 0 = free */
	int nslots;				   /* a power of two, or 0 */
} NameTable;

/* Call for a table that is all zeroes. */
extern int NameTableFind(const NameTable *table, const char *name);

/* Index of a name that NameTableFind() did not find; -1 without memory. */
extern int NameTableAdd(NameTable *table, const char *name, void *data);

extern const char *NameTableName(const NameTable *table, int index);
extern void *NameTableData(const NameTable *table, int index);
extern void NameTableFree(NameTable *table);

#endif
