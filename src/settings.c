/*
 * settings.c
 *		Noticing ALTER DATABASE SET, which running sessions never take over.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_db_role_setting.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "settings.h"

uint64
SettingsFingerprint(void)
{
	Relation rel = table_open(DbRoleSettingRelationId, AccessShareLock);
	Oid databases[2] = {MyDatabaseId, InvalidOid};
	uint64 fingerprint = 1;

	for (int i = 0; i < lengthof(databases); i++)
	{
		ScanKeyData keys[2];
		SysScanDesc scan;
		HeapTuple tuple;

		ScanKeyInit(&keys[0], Anum_pg_db_role_setting_setdatabase,
					BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(databases[i]));
		ScanKeyInit(&keys[1], Anum_pg_db_role_setting_setrole,
					BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(i == 0 ? InvalidOid : GetUserId()));
		scan = systable_beginscan(rel, DbRoleSettingDatidRolidIndexId, true,
								  NULL, lengthof(keys), keys);
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		{
			bool isnull;
			Datum value =
				heap_getattr(tuple, Anum_pg_db_role_setting_setconfig,
							 RelationGetDescr(rel), &isnull);
			struct varlena *config;

			if (isnull)
				continue;
			config = PG_DETOAST_DATUM(value);
			fingerprint = hash_combine64(
				fingerprint, hash_bytes_extended((unsigned char *) config,
												 VARSIZE(config), 0));
		}
		systable_endscan(scan);
	}
	table_close(rel, AccessShareLock);
	return fingerprint != 0 ? fingerprint : 1;
}
